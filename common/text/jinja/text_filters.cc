// Filters that make text.
#include <string>
#include <utility>
#include <vector>

#include "common/base/status_macros.h"
#include "common/text/jinja/access.h"
#include "common/text/jinja/cat.h"
#include "common/text/jinja/filters.h"
#include "common/text/jinja/json.h"
#include "common/text/jinja/operators.h"
#include "common/text/jinja/printing.h"
#include "common/text/jinja/splitting.h"
#include "common/text/jinja/string_methods.h"
#include "common/text/jinja/unicode.h"

namespace qanat::text::jinja::filters {
namespace {

// str(input), for a filter without parameters.
absl::StatusOr<Text> OnlyInput(std::string_view callee, const Value& input, const Arguments& arguments,
                               Budget& budget) {
  QANAT_RETURN_IF_ERROR(Bind(callee, arguments, {}, 0).status());
  return Str(input, budget);
}

// Where jinja2's title filter begins a word.
bool SeparatesWords(char32_t c) {
  return IsSpace(c) || c == '-' || c == '(' || c == '{' || c == '[' || c == '<';
}

absl::Status ReadSeparators(const Value& value, JsonStyle& style, Budget& budget) {
  QANAT_ASSIGN_OR_RETURN(const std::vector<Value> pair, jinja::Items(value, budget));
  if (pair.size() != 2 || !pair[0].Is(Kind::kString) || !pair[1].Is(Kind::kString)) {
    return RenderError("tojson() wants two strings as separators");
  }
  style.item_separator = pair[0].bytes();
  style.key_separator = pair[1].bytes();
  return absl::OkStatus();
}

absl::Status ReadIndent(const Value& value, JsonStyle& style, Budget& budget) {
  if (value.Is(Kind::kString)) {
    style.indent = value.bytes();
  } else {
    QANAT_ASSIGN_OR_RETURN(const int64_t width, IntArgument("tojson", value, 0));
    const size_t blanks = width < 0 ? 0 : static_cast<size_t>(width);
    QANAT_RETURN_IF_ERROR(budget.SpendBytes(blanks));
    style.indent.emplace(blanks, ' ');
  }
  style.item_separator = ",";
  return absl::OkStatus();
}

}  // namespace

Result Upper(const Value& input, const Arguments& arguments, Budget& budget) {
  QANAT_ASSIGN_OR_RETURN(const Text text, OnlyInput("upper", input, arguments, budget));
  return Value::Str(ConvertCase(text, LetterCase::kUpper));
}

Result Lower(const Value& input, const Arguments& arguments, Budget& budget) {
  QANAT_ASSIGN_OR_RETURN(const Text text, OnlyInput("lower", input, arguments, budget));
  return Value::Str(ConvertCase(text, LetterCase::kLower));
}

Result Capitalize(const Value& input, const Arguments& arguments, Budget& budget) {
  QANAT_ASSIGN_OR_RETURN(const Text text, OnlyInput("capitalize", input, arguments, budget));
  return Value::Str(jinja::Capitalize(text));
}

// Unlike str.title(): a word begins after a blank, a dash or an opening bracket, and nowhere else.
Result Title(const Value& input, const Arguments& arguments, Budget& budget) {
  QANAT_ASSIGN_OR_RETURN(const Text text, OnlyInput("title", input, arguments, budget));
  Text out;
  for (size_t at = 0; at < text.size();) {
    const CodePoint first = CodePointAt(text.bytes(), at);
    const bool separators = SeparatesWords(first.value);
    size_t end = at + first.length;
    while (end < text.size()) {
      const CodePoint c = CodePointAt(text.bytes(), end);
      if (SeparatesWords(c.value) != separators) break;
      end += c.length;
    }
    out.Append(ConvertCase(text.Slice(at, at + first.length), LetterCase::kUpper));
    out.Append(ConvertCase(text.Slice(at + first.length, end), LetterCase::kLower));
    at = end;
  }
  return Value::Str(std::move(out));
}

Result Trim(const Value& input, const Arguments& arguments, Budget& budget) {
  QANAT_ASSIGN_OR_RETURN(const Bound bound, Bind("trim", arguments, {"chars"}, 0));
  QANAT_ASSIGN_OR_RETURN(const Text* characters, TextArgument("trim", bound[0]));
  QANAT_ASSIGN_OR_RETURN(const Text text, Str(input, budget));
  return Value::Str(Strip(text, characters, Side::kBoth));
}

Result Replace(const Value& input, const Arguments& arguments, Budget& budget) {
  QANAT_ASSIGN_OR_RETURN(const Bound bound, Bind("replace", arguments, {"old", "new", "count"}, 2));
  QANAT_ASSIGN_OR_RETURN(const Text text, Str(input, budget));
  QANAT_ASSIGN_OR_RETURN(const Text old, Str(*bound[0], budget));
  QANAT_ASSIGN_OR_RETURN(const Text replacement, Str(*bound[1], budget));
  int64_t count = -1;
  if (bound[2].has_value() && !bound[2]->Is(Kind::kNone)) {
    QANAT_ASSIGN_OR_RETURN(count, IntArgument("replace", bound[2], -1));
  }
  QANAT_ASSIGN_OR_RETURN(Text replaced, jinja::Replace(text, old, replacement, count, budget));
  return Value::Str(std::move(replaced));
}

Result Indent(const Value& input, const Arguments& arguments, Budget& budget) {
  QANAT_ASSIGN_OR_RETURN(const Bound bound, Bind("indent", arguments, {"width", "first", "blank"}, 0));
  if (!input.Is(Kind::kString)) return RenderError(Cat("indent wants a string, not '", TypeName(input), "'"));
  Text indentation;
  if (bound[0].has_value() && bound[0]->Is(Kind::kString)) {
    indentation = bound[0]->text();
  } else {
    QANAT_ASSIGN_OR_RETURN(const int64_t width, IntArgument("indent", bound[0], 4));
    QANAT_ASSIGN_OR_RETURN(const Value blanks,
                           Compute(Arithmetic::kMultiply, Value::Plain(" "), Value::Int(width), budget));
    indentation = blanks.text();
  }
  const bool blank_too = TruthArgument(bound[2], false);
  QANAT_RETURN_IF_ERROR(budget.SpendText(input.text()));
  Text ended = input.text();
  ended.Append("\n", /*control=*/false);
  QANAT_ASSIGN_OR_RETURN(const std::vector<Value> lines, SplitLines(ended, /*keep_ends=*/false, budget));
  Text out;
  bool first = true;
  for (const Value& value : lines) {
    const Text& line = value.text();
    QANAT_RETURN_IF_ERROR(budget.SpendText(indentation));
    if (!first) out.Append("\n", /*control=*/false);
    const bool indents = first ? TruthArgument(bound[1], false) : blank_too || !line.empty();
    if (indents) out.Append(indentation);
    out.Append(line);
    first = false;
  }
  return Value::Str(std::move(out));
}

Result Join(const Value& input, const Arguments& arguments, Budget& budget) {
  QANAT_ASSIGN_OR_RETURN(const Bound bound, Bind("join", arguments, {"d", "attribute"}, 0));
  QANAT_ASSIGN_OR_RETURN(const Text separator, Str(bound[0].value_or(Value::Plain("")), budget));
  QANAT_ASSIGN_OR_RETURN(const AttributePath path, AttributePath::Parse(bound[1].value_or(Value::None())));
  QANAT_ASSIGN_OR_RETURN(const std::vector<Value> items, jinja::Items(input, budget));
  Text joined;
  for (size_t i = 0; i < items.size(); ++i) {
    QANAT_RETURN_IF_ERROR(budget.SpendText(separator));
    if (i > 0) joined.Append(separator);
    QANAT_ASSIGN_OR_RETURN(const Value item, path.Get(items[i], nullptr, budget));
    QANAT_RETURN_IF_ERROR(AppendStr(item, joined, budget));
  }
  return Value::Str(std::move(joined));
}

Result String(const Value& input, const Arguments& arguments, Budget& budget) {
  QANAT_RETURN_IF_ERROR(Bind("string", arguments, {}, 0).status());
  if (input.Is(Kind::kString)) return input;
  QANAT_ASSIGN_OR_RETURN(Text text, Str(input, budget));
  return Value::Str(std::move(text));
}

// MarkupSafe's escape(): its result is as safe as |safe makes a string.
Result Escape(const Value& input, const Arguments& arguments, Budget& budget) {
  if (input.Is(Kind::kString) && input.string().markup) return input;
  QANAT_ASSIGN_OR_RETURN(const Text text, OnlyInput("escape", input, arguments, budget));
  Text out;
  for (size_t i = 0; i < text.size(); ++i) {
    constexpr std::string_view kSpecial = "&<>\"'";
    constexpr std::string_view kEscapes[] = {"&amp;", "&lt;", "&gt;", "&#34;", "&#39;"};
    const size_t special = kSpecial.find(text.bytes()[i]);
    const bool plain = special == std::string_view::npos;
    out.Append(plain ? std::string_view(text.bytes()).substr(i, 1) : kEscapes[special], text.IsControl(i));
  }
  return Value::Markup(Value::Str(std::move(out)));
}

Result Safe(const Value& input, const Arguments& arguments, Budget& budget) {
  QANAT_ASSIGN_OR_RETURN(Text text, OnlyInput("safe", input, arguments, budget));
  return Value::Markup(Value::Str(std::move(text)));
}

// transformers' tojson, not jinja2's: no HTML escapes, and json.dumps()' parameters.
Result ToJson(const Value& input, const Arguments& arguments, Budget& budget) {
  QANAT_ASSIGN_OR_RETURN(const Bound bound,
                         Bind("tojson", arguments, {"ensure_ascii", "indent", "separators", "sort_keys"}, 0));
  JsonStyle style;
  style.ensure_ascii = TruthArgument(bound[0], false);
  style.sort_keys = TruthArgument(bound[3], false);
  if (bound[1].has_value() && !bound[1]->Is(Kind::kNone)) {
    QANAT_RETURN_IF_ERROR(ReadIndent(*bound[1], style, budget));
  }
  if (bound[2].has_value() && !bound[2]->Is(Kind::kNone)) {
    QANAT_RETURN_IF_ERROR(ReadSeparators(*bound[2], style, budget));
  }
  std::string json;
  QANAT_RETURN_IF_ERROR(AppendJson(input, style, json, budget));
  return Value::Plain(std::move(json));
}

}  // namespace qanat::text::jinja::filters
