#include "common/text/jinja/printing.h"

#include <charconv>
#include <cmath>
#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/status_macros.h"
#include "common/text/jinja/cat.h"
#include "common/text/jinja/unicode.h"

namespace qanat::text::jinja {
namespace {

void AppendStringRepr(std::string_view text, std::string& out) {
  const bool double_quotes =
      text.find('\'') != std::string_view::npos && text.find('"') == std::string_view::npos;
  const char quote = double_quotes ? '"' : '\'';
  out.push_back(quote);
  for (size_t at = 0; at < text.size();) {
    const CodePoint c = CodePointAt(text, at);
    if (c.value == static_cast<char32_t>(quote) || c.value == '\\') {
      out.push_back('\\');
      out.push_back(static_cast<char>(c.value));
    } else if (c.value == '\n') {
      out.append("\\n");
    } else if (c.value == '\r') {
      out.append("\\r");
    } else if (c.value == '\t') {
      out.append("\\t");
    } else if (c.value == CodePoint::kNoCharacter || IsPrintable(c.value)) {
      out.append(text.substr(at, c.length));
    } else if (c.value <= 0xFF) {
      absl::StrAppendFormat(&out, "\\x%02x", static_cast<uint32_t>(c.value));
    } else if (c.value <= 0xFFFF) {
      absl::StrAppendFormat(&out, "\\u%04x", static_cast<uint32_t>(c.value));
    } else {
      absl::StrAppendFormat(&out, "\\U%08x", static_cast<uint32_t>(c.value));
    }
    at += c.length;
  }
  out.push_back(quote);
}

absl::Status AppendItems(const std::vector<Value>& items, std::string& out, Budget& budget) {
  for (size_t i = 0; i < items.size(); ++i) {
    if (i > 0) out.append(", ");
    QANAT_RETURN_IF_ERROR(AppendRepr(items[i], out, budget));
  }
  return absl::OkStatus();
}

absl::Status AppendListRepr(const Value& value, std::string& out, Budget& budget) {
  const List& list = value.list();
  switch (list.type) {
    case List::Type::kList:
      out.push_back('[');
      QANAT_RETURN_IF_ERROR(AppendItems(list.items, out, budget));
      out.push_back(']');
      return absl::OkStatus();
    case List::Type::kTuple:
      out.push_back('(');
      QANAT_RETURN_IF_ERROR(AppendItems(list.items, out, budget));
      out.append(list.items.size() == 1 ? ",)" : ")");
      return absl::OkStatus();
    case List::Type::kKeysView:
    case List::Type::kValuesView:
    case List::Type::kItemsView:
      out.append(TypeName(value)).append("([");
      QANAT_RETURN_IF_ERROR(AppendItems(list.items, out, budget));
      out.append("])");
      return absl::OkStatus();
    case List::Type::kRange:
    case List::Type::kIterator:
      break;
  }
  return RenderError(Cat("printing a ", TypeName(value), " is not supported"));
}

absl::Status AppendDictRepr(const Dict& dict, std::string& out, Budget& budget) {
  out.push_back('{');
  bool first = true;
  for (const Dict::Entry& entry : dict.entries()) {
    if (!first) out.append(", ");
    first = false;
    QANAT_RETURN_IF_ERROR(AppendRepr(entry.key, out, budget));
    out.append(": ");
    QANAT_RETURN_IF_ERROR(AppendRepr(entry.value, out, budget));
  }
  out.push_back('}');
  return absl::OkStatus();
}

}  // namespace

absl::Status AppendStr(const Value& value, Text& out, Budget& budget) {
  if (value.Is(Kind::kUndefined)) return absl::OkStatus();
  if (value.Is(Kind::kString)) {
    QANAT_RETURN_IF_ERROR(budget.SpendText(value.text()));
    out.Append(value.text());
    return absl::OkStatus();
  }
  std::string plain;
  QANAT_RETURN_IF_ERROR(AppendRepr(value, plain, budget));
  out.Append(plain, /*control=*/false);
  return absl::OkStatus();
}

absl::StatusOr<Text> Str(const Value& value, Budget& budget) {
  Text text;
  QANAT_RETURN_IF_ERROR(AppendStr(value, text, budget));
  return text;
}

absl::Status AppendRepr(const Value& value, std::string& out, Budget& budget) {
  QANAT_RETURN_IF_ERROR(budget.Spend(1));
  switch (value.kind()) {
    case Kind::kUndefined:
      out.append("Undefined");
      return absl::OkStatus();
    case Kind::kNone:
      out.append("None");
      return absl::OkStatus();
    case Kind::kBool:
      out.append(value.boolean() ? "True" : "False");
      return absl::OkStatus();
    case Kind::kInt:
      absl::StrAppend(&out, value.integer());
      return absl::OkStatus();
    case Kind::kFloat:
      out.append(FloatRepr(value.real()));
      return absl::OkStatus();
    case Kind::kString:
      QANAT_RETURN_IF_ERROR(budget.SpendBytes(value.bytes().size()));
      if (value.string().markup) out.append("Markup(");
      AppendStringRepr(value.bytes(), out);
      if (value.string().markup) out.push_back(')');
      return absl::OkStatus();
    case Kind::kList:
      return AppendListRepr(value, out, budget);
    case Kind::kDict:
      return AppendDictRepr(value.dict(), out, budget);
    case Kind::kNamespace:
    case Kind::kMethod:
    case Kind::kFunction:
    case Kind::kMacro:
      break;
  }
  return RenderError(Cat("printing a ", TypeName(value), " is not supported"));
}

std::string FloatRepr(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  char buffer[32];
  const auto end = std::to_chars(buffer, buffer + sizeof(buffer), value, std::chars_format::scientific).ptr;
  std::string_view text(buffer, static_cast<size_t>(end - buffer));
  std::string out;
  if (text.front() == '-') {
    out.push_back('-');
    text.remove_prefix(1);
  }
  const size_t e = text.find('e');
  const int exponent = std::atoi(std::string(text.substr(e + 1)).c_str());
  std::string digits(text.substr(0, 1));
  if (e > 2) digits.append(text.substr(2, e - 2));
  // Python writes an exponent outside 1e-4 <= |value| < 1e16.
  if (exponent < -4 || exponent >= 16) {
    out.push_back(digits[0]);
    if (digits.size() > 1) out.append(".").append(digits, 1);
    absl::StrAppendFormat(&out, "e%c%02d", exponent < 0 ? '-' : '+', std::abs(exponent));
  } else if (exponent < 0) {
    out.append("0.").append(static_cast<size_t>(-exponent - 1), '0').append(digits);
  } else {
    const size_t whole = static_cast<size_t>(exponent) + 1;
    if (digits.size() < whole) digits.append(whole - digits.size(), '0');
    out.append(digits, 0, whole).append(".");
    out.append(digits.size() > whole ? digits.substr(whole) : "0");
  }
  return out;
}

}  // namespace qanat::text::jinja
