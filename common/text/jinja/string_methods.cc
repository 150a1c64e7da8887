#include "common/text/jinja/string_methods.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "common/base/status_macros.h"
#include "common/text/jinja/access.h"
#include "common/text/jinja/cat.h"
#include "common/text/jinja/printing.h"
#include "common/text/jinja/search.h"
#include "common/text/jinja/splitting.h"
#include "common/text/jinja/unicode.h"

namespace qanat::text::jinja {
namespace {

using Result = absl::StatusOr<Value>;

Value FromText(Text text) { return Value::Str(std::move(text)); }

// The one argument that must be a string.
absl::StatusOr<const Text*> OneText(std::string_view callee, const Arguments& arguments, Bound& bound) {
  QANAT_ASSIGN_OR_RETURN(bound, Bind(callee, arguments, {"value"}, 1));
  QANAT_ASSIGN_OR_RETURN(const Text* text, TextArgument(callee, bound[0]));
  if (text == nullptr) return RenderError(Cat(callee, "() wants a string"));
  return text;
}

template <LetterCase to>
Result InCase(const Text& self, const Arguments& arguments, Budget& budget) {
  QANAT_RETURN_IF_ERROR(Bind("upper, lower", arguments, {}, 0).status());
  return FromText(ConvertCase(self, to));
}

Result CapitalizeMethod(const Text& self, const Arguments& arguments, Budget& budget) {
  QANAT_RETURN_IF_ERROR(Bind("capitalize", arguments, {}, 0).status());
  return FromText(Capitalize(self));
}

Result TitleMethod(const Text& self, const Arguments& arguments, Budget& budget) {
  QANAT_RETURN_IF_ERROR(Bind("title", arguments, {}, 0).status());
  return FromText(TitleCase(self));
}

template <Side side>
Result StripMethod(const Text& self, const Arguments& arguments, Budget& budget) {
  QANAT_ASSIGN_OR_RETURN(const Bound bound, Bind("strip", arguments, {"chars"}, 0));
  QANAT_ASSIGN_OR_RETURN(const Text* characters, TextArgument("strip", bound[0]));
  return FromText(Strip(self, characters, side));
}

// The part of a string that find(), count() and the like look at.
struct Window {
  size_t begin;  // in bytes
  size_t end;
  int64_t first;  // in characters
};

// Where the `index`th character begins. REQUIRES: there are so many, or it is the end.
size_t ByteOffset(std::string_view text, int64_t index) {
  size_t at = 0;
  for (; index > 0; --index) at += CodePointAt(text, at).length;
  return at;
}

// From bounds as str.find() takes them. Unset when the start lies behind the end: then nothing is found.
absl::StatusOr<std::optional<Window>> WindowOf(std::string_view callee, const Text& self,
                                               const std::optional<Value>& start,
                                               const std::optional<Value>& end) {
  const auto is_given = [](const std::optional<Value>& bound) {
    return bound.has_value() && !bound->Is(Kind::kNone);
  };
  if (!is_given(start) && !is_given(end)) return Window{0, self.size(), 0};
  const int64_t size = static_cast<int64_t>(CountCodePoints(self.bytes()));
  int64_t first = 0;
  int64_t last = size;
  if (is_given(start)) {
    QANAT_ASSIGN_OR_RETURN(first, IntArgument(callee, start, 0));
  }
  if (is_given(end)) {
    QANAT_ASSIGN_OR_RETURN(last, IntArgument(callee, end, 0));
  }
  last = std::min(last, size);
  first = first < 0 ? std::max<int64_t>(first + size, 0) : first;
  last = last < 0 ? std::max<int64_t>(last + size, 0) : last;
  if (first > last) return std::nullopt;
  return Window{ByteOffset(self.bytes(), first), ByteOffset(self.bytes(), last), first};
}

// startswith and endswith: a string, or a tuple of which one must fit.
template <bool at_start>
Result AffixMethod(const Text& self, const Arguments& arguments, Budget& budget) {
  constexpr std::string_view kCallee = at_start ? "startswith" : "endswith";
  QANAT_ASSIGN_OR_RETURN(const Bound bound, Bind(kCallee, arguments, {"affix", "start", "end"}, 1));
  QANAT_ASSIGN_OR_RETURN(const std::optional<Window> window, WindowOf(kCallee, self, bound[1], bound[2]));
  std::vector<Value> affixes = {*bound[0]};
  if (bound[0]->Is(Kind::kList) && bound[0]->list().type == List::Type::kTuple) {
    QANAT_ASSIGN_OR_RETURN(affixes, Items(*bound[0], budget));
  }
  for (const Value& affix : affixes) {
    if (!affix.Is(Kind::kString)) return RenderError(Cat(kCallee, "() wants a string or a tuple of strings"));
    const std::string& bytes = affix.bytes();
    QANAT_RETURN_IF_ERROR(budget.SpendBytes(bytes.size()));
    if (!window.has_value() || bytes.size() > window->end - window->begin) continue;
    const size_t at = at_start ? window->begin : window->end - bytes.size();
    if (self.bytes().compare(at, bytes.size(), bytes) == 0) return Value::Bool(true);
  }
  return Value::Bool(false);
}

template <bool prefix>
Result RemoveAffixMethod(const Text& self, const Arguments& arguments, Budget& budget) {
  Bound bound;
  QANAT_ASSIGN_OR_RETURN(const Text* affix,
                         OneText(prefix ? "removeprefix" : "removesuffix", arguments, bound));
  const size_t n = affix->size();
  if (n > self.size()) return FromText(self);
  if (prefix)
    return FromText(self.bytes().compare(0, n, affix->bytes()) == 0 ? self.Slice(n, self.size()) : self);
  const size_t rest = self.size() - n;
  return FromText(self.bytes().compare(rest, n, affix->bytes()) == 0 ? self.Slice(0, rest) : self);
}

Result ReplaceMethod(const Text& self, const Arguments& arguments, Budget& budget) {
  QANAT_ASSIGN_OR_RETURN(const Bound bound, Bind("replace", arguments, {"old", "new", "count"}, 2));
  QANAT_ASSIGN_OR_RETURN(const Text* old, TextArgument("replace", bound[0]));
  QANAT_ASSIGN_OR_RETURN(const Text* replacement, TextArgument("replace", bound[1]));
  QANAT_ASSIGN_OR_RETURN(const int64_t count, IntArgument("replace", bound[2], -1));
  if (old == nullptr || replacement == nullptr) return RenderError("replace() wants strings");
  QANAT_ASSIGN_OR_RETURN(Text replaced, Replace(self, *old, *replacement, count, budget));
  return FromText(std::move(replaced));
}

enum class Search { kFind, kFindLast, kIndex };

template <Search search>
Result FindMethod(const Text& self, const Arguments& arguments, Budget& budget) {
  QANAT_ASSIGN_OR_RETURN(const Bound bound, Bind("find", arguments, {"value", "start", "end"}, 1));
  QANAT_ASSIGN_OR_RETURN(const Text* needle, TextArgument("find", bound[0]));
  if (needle == nullptr) return RenderError("find() wants a string");
  QANAT_ASSIGN_OR_RETURN(const std::optional<Window> window, WindowOf("find", self, bound[1], bound[2]));
  if (window.has_value()) {
    const std::string_view text =
        std::string_view(self.bytes()).substr(window->begin, window->end - window->begin);
    const size_t at = search == Search::kFindLast ? FindTextBackwards(text, needle->bytes(), text.size())
                                                  : FindText(text, needle->bytes(), 0);
    if (at != std::string_view::npos) {
      return Value::Int(window->first + static_cast<int64_t>(CountCodePoints(text.substr(0, at))));
    }
  }
  if (search == Search::kIndex) return RenderError("index(): the text is not in the string");
  return Value::Int(-1);
}

Result CountMethod(const Text& self, const Arguments& arguments, Budget& budget) {
  QANAT_ASSIGN_OR_RETURN(const Bound bound, Bind("count", arguments, {"value", "start", "end"}, 1));
  QANAT_ASSIGN_OR_RETURN(const Text* needle, TextArgument("count", bound[0]));
  if (needle == nullptr) return RenderError("count() wants a string");
  QANAT_ASSIGN_OR_RETURN(const std::optional<Window> window, WindowOf("count", self, bound[1], bound[2]));
  if (!window.has_value()) return Value::Int(0);
  const std::string_view text =
      std::string_view(self.bytes()).substr(window->begin, window->end - window->begin);
  if (needle->empty()) return Value::Int(static_cast<int64_t>(CountCodePoints(text)) + 1);
  int64_t count = 0;
  for (size_t at = 0; (at = FindText(text, needle->bytes(), at)) != std::string_view::npos;
       at += needle->size()) {
    ++count;
  }
  return Value::Int(count);
}

Result IsSpaceMethod(const Text& self, const Arguments& arguments, Budget& budget) {
  QANAT_RETURN_IF_ERROR(Bind("isspace", arguments, {}, 0).status());
  return Value::Bool(!self.empty() && Strip(self, nullptr, Side::kBoth).empty());
}

Result JoinMethod(const Text& self, const Arguments& arguments, Budget& budget) {
  QANAT_ASSIGN_OR_RETURN(const Bound bound, Bind("join", arguments, {"iterable"}, 1));
  QANAT_ASSIGN_OR_RETURN(const std::vector<Value> items, Items(*bound[0], budget));
  Text joined;
  for (size_t i = 0; i < items.size(); ++i) {
    if (!items[i].Is(Kind::kString)) return RenderError("join() wants strings");
    QANAT_RETURN_IF_ERROR(budget.SpendText(self));
    if (i > 0) joined.Append(self);
    QANAT_RETURN_IF_ERROR(AppendStr(items[i], joined, budget));
  }
  return FromText(std::move(joined));
}

constexpr StringMethod kMethods[] = {
    {"capitalize", CapitalizeMethod, false},
    {"count", CountMethod, false},
    {"endswith", AffixMethod<false>, false},
    {"find", FindMethod<Search::kFind>, false},
    {"index", FindMethod<Search::kIndex>, false},
    {"isspace", IsSpaceMethod, false},
    {"join", JoinMethod, false},
    {"lower", InCase<LetterCase::kLower>, false},
    {"lstrip", StripMethod<Side::kLeft>, false},
    {"partition", PartitionMethod, false},
    {"removeprefix", RemoveAffixMethod<true>, false},
    {"removesuffix", RemoveAffixMethod<false>, false},
    {"replace", ReplaceMethod, false},
    {"rfind", FindMethod<Search::kFindLast>, false},
    {"rpartition", RightPartitionMethod, false},
    {"rsplit", RightSplitMethod, true},
    {"rstrip", StripMethod<Side::kRight>, false},
    {"split", SplitMethod, true},
    {"splitlines", SplitLinesMethod, true},
    {"startswith", AffixMethod<true>, false},
    {"strip", StripMethod<Side::kBoth>, false},
    {"title", TitleMethod, false},
    {"upper", InCase<LetterCase::kUpper>, false},
};

}  // namespace

const StringMethod* FindStringMethod(std::string_view name) {
  const auto* found = std::find_if(std::begin(kMethods), std::end(kMethods),
                                   [name](const StringMethod& method) { return method.name == name; });
  return found == std::end(kMethods) ? nullptr : found;
}

Result CallStringMethod(const StringMethod& method, const Value& self, const Arguments& arguments,
                        Budget& budget) {
  if (!method.takes_named && !arguments.named.empty()) {
    return RenderError(Cat(method.name, "() takes no named arguments"));
  }
  for (const Value& argument : arguments.positional) {
    if (!argument.Is(Kind::kString)) continue;
    if (argument.string().markup) return RenderError("a |safe string as an argument is not supported");
    QANAT_RETURN_IF_ERROR(budget.SpendBytes(argument.bytes().size()));
  }
  // A few passes over the text.
  QANAT_RETURN_IF_ERROR(budget.SpendText(self.text()));
  return method.call(self.text(), arguments, budget);
}

Text Strip(const Text& text, const Text* characters, Side side) {
  absl::flat_hash_set<char32_t> set;
  if (characters != nullptr) {
    for (size_t at = 0; at < characters->size();) {
      const CodePoint c = CodePointAt(characters->bytes(), at);
      set.insert(c.value);
      at += c.length;
    }
  }
  const auto goes = [&](char32_t c) { return characters == nullptr ? IsSpace(c) : set.contains(c); };
  const std::string_view bytes = text.bytes();
  size_t begin = 0;
  size_t end = bytes.size();
  while (side != Side::kRight && begin < end) {
    const CodePoint c = CodePointAt(bytes, begin);
    if (!goes(c.value)) break;
    begin += c.length;
  }
  while (side != Side::kLeft && begin < end) {
    const size_t last = PreviousStart(bytes, end);
    if (!goes(CodePointAt(bytes, last).value)) break;
    end = last;
  }
  return text.Slice(begin, std::max(begin, end));
}

absl::StatusOr<Text> Replace(const Text& text, const Text& old, const Text& replacement, int64_t count,
                             Budget& budget) {
  QANAT_RETURN_IF_ERROR(budget.SpendText(text));
  Text out;
  size_t begin = 0;  // of what is not yet in `out`
  size_t from = 0;   // where to look on
  for (int64_t replaced = 0; count < 0 || replaced < count; ++replaced) {
    const size_t at = from > text.size() ? std::string_view::npos : FindText(text.bytes(), old.bytes(), from);
    if (at == std::string_view::npos) break;
    QANAT_RETURN_IF_ERROR(budget.SpendText(replacement));
    out.AppendSlice(text, begin, at);
    out.Append(replacement);
    begin = at + old.size();
    // An empty `old` is found before every character and at the end.
    from = !old.empty() ? begin : at == text.size() ? at + 1 : at + CodePointAt(text.bytes(), at).length;
  }
  out.AppendSlice(text, std::min(begin, text.size()), text.size());
  return out;
}

}  // namespace qanat::text::jinja
