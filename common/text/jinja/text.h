// A string that knows, byte by byte, who wrote it: the template or its data.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace qanat::text::jinja {

// Bytes in runs; each run is `control` (written by the template: its own text, its string constants, the
// BOS and EOS tokens) or plain (from data, or computed in a way that loses track). Whatever cuts, joins or
// rewrites a Text keeps the marks right for each byte, so plain text can never become control text.
// A value type. Not synchronised.
//
// Invariants:
// 1. Run ends strictly increase and the last one is the size; an empty Text has no run.
// 2. Neighbouring runs differ in `control`.
class Text {
 public:
  struct Run {
    size_t end;  // one past its last byte; it begins where the run before it ends
    bool control;
  };

  Text() = default;
  Text(std::string bytes, bool control);
  static Text Plain(std::string bytes) { return Text(std::move(bytes), false); }
  static Text Control(std::string bytes) { return Text(std::move(bytes), true); }

  const std::string& bytes() const { return bytes_; }
  const std::vector<Run>& runs() const { return runs_; }
  size_t size() const { return bytes_.size(); }
  bool empty() const { return bytes_.empty(); }

  void Append(std::string_view bytes, bool control);
  void Append(const Text& other) { AppendSlice(other, 0, other.size()); }
  // REQUIRES: begin <= end <= other.size(); &other != this.
  void AppendSlice(const Text& other, size_t begin, size_t end);

  // REQUIRES: begin <= end <= size().
  Text Slice(size_t begin, size_t end) const;
  // REQUIRES: at < size().
  bool IsControl(size_t at) const;

  void CheckInvariants() const;

 private:
  // The run that holds byte `at`. REQUIRES: at < size().
  std::vector<Run>::const_iterator RunAt(size_t at) const;

  std::string bytes_;
  std::vector<Run> runs_;
};

}  // namespace qanat::text::jinja
