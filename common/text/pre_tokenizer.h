// Cuts text into the words that byte-pair merges may not cross.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"

namespace qanat::text {

// The rules of one value of tokenizer.ggml.pre: a list of patterns, each of which splits the pieces that the
// one before left into its matches and what lies between them.
// Owns its compiled patterns.
// Immutable: any number of threads may use one.
// Create: UNIMPLEMENTED for an unknown name. Split has no errors.
class PreTokenizer {
 public:
  static absl::StatusOr<PreTokenizer> Create(std::string_view name);
  ~PreTokenizer();
  PreTokenizer(PreTokenizer&&) noexcept;

  // Calls `word` with each word of `text`, in order; joined they are `text`. Linear in the text: no pattern
  // repeats a group, and a match ends where its longest look-ahead did, but for one character.
  // REQUIRES: text is valid UTF-8.
  void Split(std::string_view text, absl::FunctionRef<void(std::string_view)> word) const;

  // A word that is a token as a whole is that token, whether merges lead to it or not.
  bool whole_words_first() const { return whole_words_first_; }

 private:
  class Pattern;
  class MatchSpace;

  PreTokenizer(std::vector<std::unique_ptr<const Pattern>> patterns, bool whole_words_first);
  void SplitFrom(size_t level, std::string_view text, MatchSpace& space,
                 absl::FunctionRef<void(std::string_view)> word) const;

  std::vector<std::unique_ptr<const Pattern>> patterns_;
  bool whole_words_first_;
};

}  // namespace qanat::text
