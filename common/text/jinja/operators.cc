#include "common/text/jinja/operators.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "common/base/status_macros.h"
#include "common/text/jinja/cat.h"
#include "common/text/jinja/printing.h"
#include "common/text/jinja/search.h"

namespace qanat::text::jinja {
namespace {

constexpr std::string_view kSigns[] = {"+", "-", "*", "/", "//", "%", "**"};

std::string SignOf(Arithmetic operation) { return std::string(kSigns[static_cast<size_t>(operation)]); }

absl::Status WrongTypes(std::string sign, const Value& a, const Value& b) {
  if (a.Is(Kind::kUndefined)) return UndefinedError(a);
  if (b.Is(Kind::kUndefined)) return UndefinedError(b);
  return RenderError(
      Cat("unsupported operand types for ", sign, ": '", TypeName(a), "' and '", TypeName(b), "'"));
}

absl::Status TooLarge() { return RenderError("an integer is beyond 64 bits"); }
absl::Status DividesByZero() { return RenderError("division by zero"); }

bool IsInteger(const Value& value) { return value.Is(Kind::kBool) || value.Is(Kind::kInt); }

absl::StatusOr<Value> FromFloat(double value) { return Value::Float(value); }

// Python's definition: the quotient rounds down and the remainder has the divisor's sign.
std::pair<double, double> FloorDivMod(double a, double b) {
  double remainder = std::fmod(a, b);
  double quotient = (a - remainder) / b;
  if (remainder != 0) {
    if ((b < 0) != (remainder < 0)) {
      remainder += b;
      quotient -= 1;
    }
  } else {
    remainder = std::copysign(0.0, b);
  }
  if (quotient == 0) return {std::copysign(0.0, a / b), remainder};
  const double floor = std::floor(quotient);
  return {quotient - floor > 0.5 ? floor + 1 : floor, remainder};
}

absl::StatusOr<Value> IntPower(int64_t base, int64_t exponent) {
  if (exponent < 0) {
    if (base == 0) return DividesByZero();
    return FromFloat(std::pow(static_cast<double>(base), static_cast<double>(exponent)));
  }
  int64_t result = 1;
  while (exponent > 0) {
    if ((exponent & 1) != 0 && __builtin_mul_overflow(result, base, &result)) return TooLarge();
    exponent >>= 1;
    if (exponent > 0 && __builtin_mul_overflow(base, base, &base)) return TooLarge();
  }
  return Value::Int(result);
}

absl::StatusOr<Value> ComputeInt(Arithmetic operation, int64_t a, int64_t b) {
  int64_t result = 0;
  switch (operation) {
    case Arithmetic::kAdd:
      if (__builtin_add_overflow(a, b, &result)) return TooLarge();
      return Value::Int(result);
    case Arithmetic::kSubtract:
      if (__builtin_sub_overflow(a, b, &result)) return TooLarge();
      return Value::Int(result);
    case Arithmetic::kMultiply:
      if (__builtin_mul_overflow(a, b, &result)) return TooLarge();
      return Value::Int(result);
    case Arithmetic::kDivide:
      if (b == 0) return DividesByZero();
      return FromFloat(static_cast<double>(static_cast<long double>(a) / static_cast<long double>(b)));
    case Arithmetic::kFloorDivide:
      if (b == 0) return DividesByZero();
      if (b == -1)
        return __builtin_sub_overflow(int64_t{0}, a, &result) ? absl::StatusOr<Value>(TooLarge())
                                                              : Value::Int(result);
      return Value::Int(a / b - (a % b != 0 && (a % b < 0) != (b < 0) ? 1 : 0));
    case Arithmetic::kModulo:
      if (b == 0) return DividesByZero();
      if (b == -1) return Value::Int(0);
      result = a % b;
      return Value::Int(result != 0 && (result < 0) != (b < 0) ? result + b : result);
    case Arithmetic::kPower:
      return IntPower(a, b);
  }
  return TooLarge();
}

absl::StatusOr<Value> ComputeFloat(Arithmetic operation, double a, double b) {
  switch (operation) {
    case Arithmetic::kAdd:
      return FromFloat(a + b);
    case Arithmetic::kSubtract:
      return FromFloat(a - b);
    case Arithmetic::kMultiply:
      return FromFloat(a * b);
    case Arithmetic::kDivide:
      if (b == 0) return DividesByZero();
      return FromFloat(a / b);
    case Arithmetic::kFloorDivide:
      if (b == 0) return DividesByZero();
      return FromFloat(FloorDivMod(a, b).first);
    case Arithmetic::kModulo:
      if (b == 0) return DividesByZero();
      return FromFloat(FloorDivMod(a, b).second);
    case Arithmetic::kPower:
      break;
  }
  if (a == 0 && b < 0) return DividesByZero();
  if (a < 0 && std::isfinite(b) && b != std::floor(b)) return RenderError("the power is a complex number");
  const double power = std::pow(a, b);
  if (std::isinf(power) && std::isfinite(a) && std::isfinite(b)) return RenderError("the power is too large");
  return FromFloat(power);
}

absl::StatusOr<Value> Add(const Value& a, const Value& b, Budget& budget) {
  if (a.Is(Kind::kString) && b.Is(Kind::kString)) {
    if (a.string().markup || b.string().markup)
      return RenderError("adding to a |safe string is not supported");
    return Concatenate({a, b}, budget);
  }
  if (a.Is(Kind::kList) && b.Is(Kind::kList) && a.list().type == b.list().type &&
      (a.list().type == List::Type::kList || a.list().type == List::Type::kTuple)) {
    QANAT_RETURN_IF_ERROR(budget.Spend(a.list().items.size() + b.list().items.size()));
    std::vector<Value> items = a.list().items;
    items.insert(items.end(), b.list().items.begin(), b.list().items.end());
    return MakeList(a.list().type, std::move(items), budget);
  }
  return WrongTypes("+", a, b);
}

absl::StatusOr<Value> Repeat(const Value& sequence, int64_t count, Budget& budget) {
  const size_t times = count < 0 ? 0 : static_cast<size_t>(count);
  QANAT_RETURN_IF_ERROR(budget.Spend(std::min(times, size_t{1} << 40)));
  if (sequence.Is(Kind::kString)) {
    const Text& text = sequence.text();
    QANAT_RETURN_IF_ERROR(budget.Spend((text.size() / 64 + text.runs().size()) * times));
    Text repeated;
    for (size_t i = 0; i < times; ++i) repeated.Append(text);
    return Value::Str(std::move(repeated));
  }
  const std::vector<Value>& items = sequence.list().items;
  QANAT_RETURN_IF_ERROR(budget.Spend(items.size() * times));
  std::vector<Value> repeated;
  for (size_t i = 0; i < times; ++i) repeated.insert(repeated.end(), items.begin(), items.end());
  return MakeList(sequence.list().type, std::move(repeated), budget);
}

bool IsRepeatable(const Value& value) {
  if (value.Is(Kind::kString)) return !value.string().markup;
  return value.Is(Kind::kList) &&
         (value.list().type == List::Type::kList || value.list().type == List::Type::kTuple);
}

absl::StatusOr<bool> EqualLists(const List& a, const List& b, Budget& budget) {
  using Type = List::Type;
  if (&a == &b) return true;
  if (a.type != b.type || a.type == Type::kIterator || a.type == Type::kValuesView) return false;
  if (a.type == Type::kKeysView || a.type == Type::kItemsView) {
    return RenderError("comparing views of dicts is not supported");
  }
  if (a.items.size() != b.items.size()) return false;
  for (size_t i = 0; i < a.items.size(); ++i) {
    QANAT_ASSIGN_OR_RETURN(const bool equal, Equal(a.items[i], b.items[i], budget));
    if (!equal) return false;
  }
  return true;
}

absl::StatusOr<bool> EqualDicts(const Dict& a, const Dict& b, Budget& budget) {
  if (a.entries().size() != b.entries().size()) return false;
  for (const Dict::Entry& entry : a.entries()) {
    QANAT_ASSIGN_OR_RETURN(const Value* other, b.Find(entry.key));
    if (other == nullptr) return false;
    QANAT_ASSIGN_OR_RETURN(const bool equal, Equal(entry.value, *other, budget));
    if (!equal) return false;
  }
  return true;
}

int OrderNumbers(const Value& a, const Value& b) {
  if (IsInteger(a) && IsInteger(b)) return AsInt(a) < AsInt(b) ? -1 : AsInt(a) > AsInt(b) ? 1 : 0;
  // 64 bits of mantissa hold every integer exactly.
  const auto wide = [](const Value& v) {
    return IsInteger(v) ? static_cast<long double>(AsInt(v)) : static_cast<long double>(v.real());
  };
  const long double left = wide(a);
  const long double right = wide(b);
  if (std::isnan(left) || std::isnan(right)) return kUnordered;
  return left < right ? -1 : left > right ? 1 : 0;
}

absl::StatusOr<int> OrderLists(const List& a, const List& b, Budget& budget) {
  const size_t common = std::min(a.items.size(), b.items.size());
  for (size_t i = 0; i < common; ++i) {
    QANAT_ASSIGN_OR_RETURN(const bool equal, Equal(a.items[i], b.items[i], budget));
    if (!equal) return Order(a.items[i], b.items[i], budget);
  }
  return a.items.size() < b.items.size() ? -1 : a.items.size() > b.items.size() ? 1 : 0;
}

bool Holds(Comparison comparison, int order) {
  if (order == kUnordered) return comparison == Comparison::kNotEqual;
  switch (comparison) {
    case Comparison::kLess:
      return order < 0;
    case Comparison::kLessEqual:
      return order <= 0;
    case Comparison::kGreater:
      return order > 0;
    default:
      return order >= 0;
  }
}

}  // namespace

bool Truth(const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined:
    case Kind::kNone:
      return false;
    case Kind::kBool:
      return value.boolean();
    case Kind::kInt:
      return value.integer() != 0;
    case Kind::kFloat:
      return value.real() != 0;
    case Kind::kString:
      return !value.text().empty();
    case Kind::kList:
      return value.list().type == List::Type::kIterator || !value.list().items.empty();
    case Kind::kDict:
      return !value.dict().entries().empty();
    default:
      return true;
  }
}

absl::StatusOr<bool> Equal(const Value& a, const Value& b, Budget& budget) {
  QANAT_RETURN_IF_ERROR(budget.Spend(1));
  if (a.IsNumber() && b.IsNumber()) return OrderNumbers(a, b) == 0;
  if (a.kind() != b.kind()) return false;
  switch (a.kind()) {
    case Kind::kUndefined:
      return true;
    case Kind::kString:
      QANAT_RETURN_IF_ERROR(budget.SpendBytes(std::min(a.bytes().size(), b.bytes().size())));
      return a.bytes() == b.bytes();
    case Kind::kList:
      return EqualLists(a.list(), b.list(), budget);
    case Kind::kDict:
      return EqualDicts(a.dict(), b.dict(), budget);
    default:
      return a.IsSameObject(b);
  }
}

absl::StatusOr<int> Order(const Value& a, const Value& b, Budget& budget) {
  QANAT_RETURN_IF_ERROR(budget.Spend(1));
  if (a.IsNumber() && b.IsNumber()) return OrderNumbers(a, b);
  if (a.Is(Kind::kString) && b.Is(Kind::kString)) {
    QANAT_RETURN_IF_ERROR(budget.SpendBytes(std::min(a.bytes().size(), b.bytes().size())));
    const int order = a.bytes().compare(b.bytes());
    return order < 0 ? -1 : order > 0 ? 1 : 0;
  }
  if (a.Is(Kind::kList) && b.Is(Kind::kList) && a.list().type == b.list().type &&
      (a.list().type == List::Type::kList || a.list().type == List::Type::kTuple)) {
    return OrderLists(a.list(), b.list(), budget);
  }
  return WrongTypes("comparing", a, b);
}

absl::StatusOr<bool> Compare(Comparison comparison, const Value& a, const Value& b, Budget& budget) {
  switch (comparison) {
    case Comparison::kEqual:
      return Equal(a, b, budget);
    case Comparison::kNotEqual: {
      QANAT_ASSIGN_OR_RETURN(const bool equal, Equal(a, b, budget));
      return !equal;
    }
    case Comparison::kIn:
      return Contains(b, a, budget);
    case Comparison::kNotIn: {
      QANAT_ASSIGN_OR_RETURN(const bool contained, Contains(b, a, budget));
      return !contained;
    }
    default: {
      QANAT_ASSIGN_OR_RETURN(const int order, Order(a, b, budget));
      return Holds(comparison, order);
    }
  }
}

absl::StatusOr<bool> Contains(const Value& container, const Value& item, Budget& budget) {
  switch (container.kind()) {
    case Kind::kUndefined:
      return false;
    case Kind::kString:
      if (!item.Is(Kind::kString)) {
        return RenderError(Cat("'in <string>' requires a string as left operand, not ", TypeName(item)));
      }
      QANAT_RETURN_IF_ERROR(budget.SpendBytes(container.bytes().size() + item.bytes().size()));
      return FindText(container.bytes(), item.bytes(), 0) != std::string_view::npos;
    case Kind::kDict: {
      QANAT_ASSIGN_OR_RETURN(const Value* found, container.dict().Find(item));
      return found != nullptr;
    }
    case Kind::kList: {
      const List& list = container.list();
      for (size_t i = list.taken; i < list.items.size(); ++i) {
        if (!list.HasLength()) list.taken = i + 1;
        QANAT_ASSIGN_OR_RETURN(const bool equal, Equal(list.items[i], item, budget));
        if (equal) return true;
      }
      return false;
    }
    default:
      return RenderError(Cat("argument of type '", TypeName(container), "' is not iterable"));
  }
}

absl::StatusOr<Value> Compute(Arithmetic operation, const Value& a, const Value& b, Budget& budget) {
  if (IsInteger(a) && IsInteger(b)) return ComputeInt(operation, AsInt(a), AsInt(b));
  if (a.IsNumber() && b.IsNumber()) return ComputeFloat(operation, AsFloat(a), AsFloat(b));
  if (operation == Arithmetic::kAdd) return Add(a, b, budget);
  if (operation == Arithmetic::kMultiply && IsRepeatable(a) && IsInteger(b))
    return Repeat(a, AsInt(b), budget);
  if (operation == Arithmetic::kMultiply && IsInteger(a) && IsRepeatable(b))
    return Repeat(b, AsInt(a), budget);
  if (operation == Arithmetic::kModulo && a.Is(Kind::kString)) {
    return RenderError("the % operator on a string is not supported");
  }
  return WrongTypes(SignOf(operation), a, b);
}

absl::StatusOr<Value> Negate(const Value& value) {
  if (value.Is(Kind::kFloat)) return Value::Float(-value.real());
  if (value.IsNumber()) return ComputeInt(Arithmetic::kSubtract, 0, AsInt(value));
  return WrongTypes("unary -", value, value);
}

absl::StatusOr<Value> Affirm(const Value& value) {
  if (value.Is(Kind::kFloat)) return value;
  if (value.IsNumber()) return Value::Int(AsInt(value));
  return WrongTypes("unary +", value, value);
}

absl::StatusOr<Value> Concatenate(const std::vector<Value>& parts, Budget& budget) {
  Text joined;
  for (const Value& part : parts) QANAT_RETURN_IF_ERROR(AppendStr(part, joined, budget));
  return Value::Str(std::move(joined));
}

double AsFloat(const Value& value) {
  return value.Is(Kind::kFloat) ? value.real() : static_cast<double>(AsInt(value));
}

int64_t AsInt(const Value& value) { return value.Is(Kind::kBool) ? value.boolean() : value.integer(); }

}  // namespace qanat::text::jinja
