#include "common/text/jinja/splitting.h"

#include <algorithm>
#include <limits>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/status_macros.h"
#include "common/text/jinja/cat.h"
#include "common/text/jinja/search.h"
#include "common/text/jinja/unicode.h"

namespace qanat::text::jinja {
namespace {

using Result = absl::StatusOr<Value>;

size_t SkipBlanks(std::string_view text, size_t at, bool blank) {
  while (at < text.size()) {
    const CodePoint c = CodePointAt(text, at);
    if (IsSpace(c.value) != blank) break;
    at += c.length;
  }
  return at;
}

size_t SkipBlanksBackwards(std::string_view text, size_t end, bool blank) {
  while (end > 0) {
    const size_t begin = PreviousStart(text, end);
    if (IsSpace(CodePointAt(text, begin).value) != blank) break;
    end = begin;
  }
  return end;
}

// Strings that are paid for one by one: each has memory of its own.
class Pieces {
 public:
  explicit Pieces(Budget& budget) : budget_(budget) {}

  size_t size() const { return pieces_.size(); }
  absl::Status Add(Text piece) {
    QANAT_RETURN_IF_ERROR(budget_.Spend(kStepsPerString));
    pieces_.push_back(Value::Str(std::move(piece)));
    return absl::OkStatus();
  }
  Result ToList(List::Type type) { return MakeList(type, std::move(pieces_), budget_); }
  std::vector<Value> Take() && { return std::move(pieces_); }
  Result ToReversedList() {
    std::reverse(pieces_.begin(), pieces_.end());
    return ToList(List::Type::kList);
  }

 private:
  Budget& budget_;
  std::vector<Value> pieces_;
};

Result SplitAtBlanks(const Text& text, uint64_t max_splits, Budget& budget) {
  Pieces pieces(budget);
  size_t at = SkipBlanks(text.bytes(), 0, true);
  while (at < text.size()) {
    const size_t end = pieces.size() == max_splits ? text.size() : SkipBlanks(text.bytes(), at, false);
    QANAT_RETURN_IF_ERROR(pieces.Add(text.Slice(at, end)));
    at = SkipBlanks(text.bytes(), end, true);
  }
  return pieces.ToList(List::Type::kList);
}

Result SplitAtBlanksBackwards(const Text& text, uint64_t max_splits, Budget& budget) {
  Pieces pieces(budget);
  size_t end = SkipBlanksBackwards(text.bytes(), text.size(), true);
  while (end > 0) {
    const size_t begin = pieces.size() == max_splits ? 0 : SkipBlanksBackwards(text.bytes(), end, false);
    QANAT_RETURN_IF_ERROR(pieces.Add(text.Slice(begin, end)));
    end = SkipBlanksBackwards(text.bytes(), begin, true);
  }
  return pieces.ToReversedList();
}

Result SplitAt(const Text& text, std::string_view separator, uint64_t max_splits, Budget& budget) {
  Pieces pieces(budget);
  size_t begin = 0;
  while (pieces.size() < max_splits) {
    const size_t at = FindText(text.bytes(), separator, begin);
    if (at == std::string_view::npos) break;
    QANAT_RETURN_IF_ERROR(pieces.Add(text.Slice(begin, at)));
    begin = at + separator.size();
  }
  QANAT_RETURN_IF_ERROR(pieces.Add(text.Slice(begin, text.size())));
  return pieces.ToList(List::Type::kList);
}

Result SplitAtBackwards(const Text& text, std::string_view separator, uint64_t max_splits, Budget& budget) {
  Pieces pieces(budget);
  size_t end = text.size();
  while (pieces.size() < max_splits) {
    const size_t at = FindTextBackwards(text.bytes(), separator, end);
    if (at == std::string_view::npos) break;
    QANAT_RETURN_IF_ERROR(pieces.Add(text.Slice(at + separator.size(), end)));
    end = at;
  }
  QANAT_RETURN_IF_ERROR(pieces.Add(text.Slice(0, end)));
  return pieces.ToReversedList();
}

Result Split(const Text& self, const Arguments& arguments, bool backwards, Budget& budget) {
  const std::string_view callee = backwards ? "rsplit" : "split";
  QANAT_ASSIGN_OR_RETURN(const Bound bound, Bind(callee, arguments, {"sep", "maxsplit"}, 0));
  QANAT_ASSIGN_OR_RETURN(const Text* separator, TextArgument(callee, bound[0]));
  QANAT_ASSIGN_OR_RETURN(const int64_t limit, IntArgument(callee, bound[1], -1));
  const uint64_t max_splits = limit < 0 ? std::numeric_limits<uint64_t>::max() : static_cast<uint64_t>(limit);
  if (separator == nullptr) {
    return backwards ? SplitAtBlanksBackwards(self, max_splits, budget)
                     : SplitAtBlanks(self, max_splits, budget);
  }
  if (separator->empty()) return RenderError(Cat(callee, "() wants a separator that is not empty"));
  return backwards ? SplitAtBackwards(self, separator->bytes(), max_splits, budget)
                   : SplitAt(self, separator->bytes(), max_splits, budget);
}

Result Partition(const Text& self, const Arguments& arguments, bool backwards, Budget& budget) {
  const std::string_view callee = backwards ? "rpartition" : "partition";
  QANAT_ASSIGN_OR_RETURN(const Bound bound, Bind(callee, arguments, {"sep"}, 1));
  QANAT_ASSIGN_OR_RETURN(const Text* separator, TextArgument(callee, bound[0]));
  if (separator == nullptr || separator->empty()) return RenderError(Cat(callee, "() wants a separator"));
  const size_t at = backwards ? FindTextBackwards(self.bytes(), separator->bytes(), self.size())
                              : FindText(self.bytes(), separator->bytes(), 0);
  Text before = backwards ? Text() : self;
  Text middle;
  Text after = backwards ? self : Text();
  if (at != std::string_view::npos) {
    before = self.Slice(0, at);
    middle = *separator;
    after = self.Slice(at + separator->size(), self.size());
  }
  return MakeList(
      List::Type::kTuple,
      {Value::Str(std::move(before)), Value::Str(std::move(middle)), Value::Str(std::move(after))}, budget);
}

bool EndsLine(char32_t c) {
  return (c >= 0x0A && c <= 0x0D) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 || c == 0x2029;
}

}  // namespace

Result SplitMethod(const Text& self, const Arguments& arguments, Budget& budget) {
  return Split(self, arguments, /*backwards=*/false, budget);
}

Result RightSplitMethod(const Text& self, const Arguments& arguments, Budget& budget) {
  return Split(self, arguments, /*backwards=*/true, budget);
}

Result SplitLinesMethod(const Text& self, const Arguments& arguments, Budget& budget) {
  QANAT_ASSIGN_OR_RETURN(const Bound bound, Bind("splitlines", arguments, {"keepends"}, 0));
  QANAT_ASSIGN_OR_RETURN(const int64_t keep_ends, IntArgument("splitlines", bound[0], 0));
  QANAT_ASSIGN_OR_RETURN(std::vector<Value> lines, SplitLines(self, keep_ends != 0, budget));
  return MakeList(List::Type::kList, std::move(lines), budget);
}

Result PartitionMethod(const Text& self, const Arguments& arguments, Budget& budget) {
  return Partition(self, arguments, /*backwards=*/false, budget);
}

Result RightPartitionMethod(const Text& self, const Arguments& arguments, Budget& budget) {
  return Partition(self, arguments, /*backwards=*/true, budget);
}

absl::StatusOr<std::vector<Value>> SplitLines(const Text& text, bool keep_ends, Budget& budget) {
  Pieces lines(budget);
  size_t begin = 0;
  for (size_t at = 0; at < text.size();) {
    const CodePoint c = CodePointAt(text.bytes(), at);
    const size_t stop = at;
    at += c.length;
    if (!EndsLine(c.value)) continue;
    if (c.value == '\r' && at < text.size() && text.bytes()[at] == '\n') ++at;
    QANAT_RETURN_IF_ERROR(lines.Add(text.Slice(begin, keep_ends ? at : stop)));
    begin = at;
  }
  if (begin < text.size()) QANAT_RETURN_IF_ERROR(lines.Add(text.Slice(begin, text.size())));
  return std::move(lines).Take();
}

}  // namespace qanat::text::jinja
