// Ends an answer at the first stop string, while the answer is still being written.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace qanat::text {

// Passes text through until a stop string is complete.
// Owns copies of the stops. One for each choice of a request.
// One thread at a time.
// No errors.
//
// The match is the one whose last byte comes first in the text; of stops that end at the same byte, the
// longest (it begins first); of equal stops, the lowest index. It depends on the text alone, never on how it
// was cut into pieces.
// Held back is the least that can be: the longest end of the text so far that is a proper prefix of a stop.
// Given whole characters and stops of whole characters, whole characters come out.
// Time: linear in the text, for each stop.
class StopMatcher {
 public:
  struct Result {
    std::string text;         // released now
    std::optional<int> stop;  // index of the stop that matched; the answer is over

    bool operator==(const Result&) const = default;
  };

  // With `include_stop` the answer ends behind the stop string, else before it. REQUIRES: no stop is empty.
  explicit StopMatcher(std::vector<std::string> stops, bool include_stop = false);

  // Takes the next piece of text. After a match: nothing, and the same `stop` again. Stops that end in it
  // while the answer may not end yet (`may_end` false) are text like any other.
  Result Feed(std::string_view text, bool may_end = true);

  // The answer has ended by other means: what was held back. Empty after a match.
  std::string Flush();

  // The stop that matched.
  std::optional<int> matched() const { return matched_; }

  int held_bytes() const { return static_cast<int>(held_.size()); }

 private:
  // One stop string and how much of it the text so far ends with (Knuth, Morris and Pratt).
  // Invariant: prefix() < size(), but between a match and Ignore(), or the answer's end.
  class Pattern {
   public:
    explicit Pattern(std::string stop);
    // True when the stop string is complete.
    bool Advance(char byte);
    // REQUIRES: it is complete. What begins in it may still become a match.
    void Ignore() { prefix_ = border_.back(); }
    size_t prefix() const { return prefix_; }
    size_t size() const { return text_.size(); }

   private:
    std::string text_;
    std::vector<size_t> border_;  // [size()] of each beginning: the longest proper one that is also its end
    size_t prefix_ = 0;
  };

  // Advances every pattern by one byte; the stop that is complete, the longest if several are.
  std::optional<int> Advance(char byte, bool may_end);
  // Ends the answer at a match whose last byte is held_[end - 1].
  std::string Cut(size_t end);
  // Takes the first `bytes` of held_.
  std::string Release(size_t bytes);

  std::vector<Pattern> patterns_;
  const bool include_stop_;
  std::optional<int> matched_;
  std::string held_;  // between calls: exactly the longest proper prefix of a stop that the text ends with
};

}  // namespace qanat::text
