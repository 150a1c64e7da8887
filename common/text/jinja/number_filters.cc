// Filters that make numbers.
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/base/status_macros.h"
#include "common/text/jinja/access.h"
#include "common/text/jinja/cat.h"
#include "common/text/jinja/filters.h"
#include "common/text/jinja/operators.h"
#include "common/text/jinja/string_methods.h"

namespace qanat::text::jinja::filters {
namespace {

// What int() and float() read: blanks around and underscores between digits are allowed.
std::optional<std::string> PlainNumber(const Text& text) {
  const Text stripped = Strip(text, nullptr, Side::kBoth);
  const std::string_view bytes = stripped.bytes();
  const auto is_digit = [&](size_t i) { return i < bytes.size() && bytes[i] >= '0' && bytes[i] <= '9'; };
  std::string number;
  for (size_t i = 0; i < bytes.size(); ++i) {
    if (bytes[i] == '_') {
      if (i == 0 || !is_digit(i - 1) || !is_digit(i + 1)) return std::nullopt;
    } else if (!(bytes[i] == '+' && i == 0)) {
      number.push_back(bytes[i]);
    } else if (bytes.size() > 1 && bytes[1] == '-') {
      return std::nullopt;
    }
  }
  return number;
}

template <typename Number>
std::optional<Number> ParseWhole(const std::string& text, bool& out_of_range) {
  Number value{};
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (stop != end || text.empty()) return std::nullopt;
  out_of_range = error == std::errc::result_out_of_range;
  if (error != std::errc()) return std::nullopt;
  return value;
}

// float(text), or nothing where Python raises.
std::optional<double> ParseFloat(const Text& text) {
  const std::optional<std::string> number = PlainNumber(text);
  if (!number.has_value() || number->find_first_of("(") != std::string::npos) return std::nullopt;
  bool out_of_range = false;
  std::optional<double> value = ParseWhole<double>(*number, out_of_range);
  // Python rounds to infinity or to zero, as strtod does.
  if (out_of_range) value = std::strtod(number->c_str(), nullptr);
  return value;
}

// int(number), or nothing where it has no such integer.
absl::StatusOr<std::optional<Value>> Truncate(double number) {
  if (!std::isfinite(number)) return std::nullopt;
  if (std::abs(number) >= 0x1p63) return RenderError("an integer is beyond 64 bits");
  return Value::Int(static_cast<int64_t>(number));
}

absl::StatusOr<std::optional<Value>> ParseInt(const Text& text) {
  const std::optional<std::string> number = PlainNumber(text);
  if (!number.has_value()) return std::nullopt;
  bool out_of_range = false;
  const std::optional<int64_t> whole = ParseWhole<int64_t>(*number, out_of_range);
  if (out_of_range) return RenderError("an integer is beyond 64 bits");
  if (whole.has_value()) return Value::Int(*whole);
  const std::optional<double> real = ParseFloat(text);
  return real.has_value() ? Truncate(*real) : std::nullopt;
}

}  // namespace

Result Int(const Value& input, const Arguments& arguments, Budget& budget) {
  QANAT_ASSIGN_OR_RETURN(const Bound bound, Bind("int", arguments, {"default", "base"}, 0));
  if (input.Is(Kind::kUndefined)) return UndefinedError(input);
  if (input.Is(Kind::kBool) || input.Is(Kind::kInt)) return Value::Int(AsInt(input));
  std::optional<Value> value;
  if (input.Is(Kind::kFloat)) {
    if (std::isinf(input.real())) return RenderError("cannot convert infinity to an integer");
    QANAT_ASSIGN_OR_RETURN(value, Truncate(input.real()));
  } else if (input.Is(Kind::kString)) {
    QANAT_ASSIGN_OR_RETURN(const int64_t base, IntArgument("int", bound[1], 10));
    if (base != 10) return RenderError("int with a base other than 10 is not supported");
    QANAT_RETURN_IF_ERROR(budget.SpendBytes(input.bytes().size()));
    QANAT_ASSIGN_OR_RETURN(value, ParseInt(input.text()));
  }
  return value.has_value() ? *value : bound[0].value_or(Value::Int(0));
}

Result Float(const Value& input, const Arguments& arguments, Budget& budget) {
  QANAT_ASSIGN_OR_RETURN(const Bound bound, Bind("float", arguments, {"default"}, 0));
  if (input.Is(Kind::kUndefined)) return UndefinedError(input);
  if (input.IsNumber()) return Value::Float(AsFloat(input));
  std::optional<double> value;
  if (input.Is(Kind::kString)) {
    QANAT_RETURN_IF_ERROR(budget.SpendBytes(input.bytes().size()));
    value = ParseFloat(input.text());
  }
  return value.has_value() ? Value::Float(*value) : bound[0].value_or(Value::Float(0));
}

Result Abs(const Value& input, const Arguments& arguments, Budget& budget) {
  QANAT_RETURN_IF_ERROR(Bind("abs", arguments, {}, 0).status());
  if (input.Is(Kind::kUndefined)) return UndefinedError(input);
  if (!input.IsNumber()) return RenderError(Cat("abs wants a number, not '", TypeName(input), "'"));
  if (input.Is(Kind::kFloat)) return Value::Float(std::abs(input.real()));
  return AsInt(input) < 0 ? Negate(input) : Affirm(input);
}

// round(), math.ceil() or math.floor() at a number of decimals; always a float but for integers that stay.
Result Round(const Value& input, const Arguments& arguments, Budget& budget) {
  QANAT_ASSIGN_OR_RETURN(const Bound bound, Bind("round", arguments, {"precision", "method"}, 0));
  QANAT_ASSIGN_OR_RETURN(const int64_t precision, IntArgument("round", bound[0], 0));
  QANAT_ASSIGN_OR_RETURN(const Text* method, TextArgument("round", bound[1]));
  const std::string how = method == nullptr ? "common" : method->bytes();
  if (how != "common" && how != "ceil" && how != "floor")
    return RenderError("round's method must be common, ceil or floor");
  if (precision < 0 || precision > 15) return RenderError("round supports 0 to 15 decimals");
  if (input.Is(Kind::kUndefined)) return UndefinedError(input);
  if (!input.IsNumber()) return RenderError(Cat("round wants a number, not '", TypeName(input), "'"));
  if (how == "common") {
    if (!input.Is(Kind::kFloat)) return Value::Int(AsInt(input));
    // Decimal digits of the exact value, halves to even, as Python rounds.
    char digits[400];
    std::snprintf(digits, sizeof(digits), "%.*f", static_cast<int>(precision), input.real());
    return Value::Float(std::strtod(digits, nullptr));
  }
  const double scale = std::pow(10.0, static_cast<double>(precision));
  const double scaled = AsFloat(input) * scale;
  if (!std::isfinite(scaled)) return RenderError("round of a number that is not finite");
  return Value::Float((how == "ceil" ? std::ceil(scaled) : std::floor(scaled)) / scale);
}

Result Sum(const Value& input, const Arguments& arguments, Budget& budget) {
  QANAT_ASSIGN_OR_RETURN(const Bound bound, Bind("sum", arguments, {"attribute", "start"}, 0));
  QANAT_ASSIGN_OR_RETURN(const AttributePath path, AttributePath::Parse(bound[0].value_or(Value::None())));
  Value sum = bound[1].value_or(Value::Int(0));
  if (sum.Is(Kind::kString)) return RenderError("sum cannot add strings");
  QANAT_ASSIGN_OR_RETURN(const std::vector<Value> items, jinja::Items(input, budget));
  for (const Value& item : items) {
    QANAT_ASSIGN_OR_RETURN(const Value term, path.Get(item, nullptr, budget));
    QANAT_ASSIGN_OR_RETURN(sum, Compute(Arithmetic::kAdd, sum, term, budget));
  }
  return sum;
}

}  // namespace qanat::text::jinja::filters
