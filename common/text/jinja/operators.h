// What Python's operators do with values.
#pragma once

#include <cstdint>
#include <string_view>

#include "absl/status/statusor.h"
#include "common/text/jinja/budget.h"
#include "common/text/jinja/value.h"

namespace qanat::text::jinja {

enum class Arithmetic { kAdd, kSubtract, kMultiply, kDivide, kFloorDivide, kModulo, kPower };
enum class Comparison { kEqual, kNotEqual, kLess, kLessEqual, kGreater, kGreaterEqual, kIn, kNotIn };

// bool(value). Never fails.
bool Truth(const Value& value);

absl::StatusOr<bool> Equal(const Value& a, const Value& b, Budget& budget);
// Less than, equal to or greater than zero as a is less than, equal to or greater than b; 2 when they are
// unordered (a NaN). INVALID_ARGUMENT when Python does not order the two types.
absl::StatusOr<int> Order(const Value& a, const Value& b, Budget& budget);
inline constexpr int kUnordered = 2;

absl::StatusOr<bool> Compare(Comparison comparison, const Value& a, const Value& b, Budget& budget);
absl::StatusOr<bool> Contains(const Value& container, const Value& item, Budget& budget);

// Integers are 64 bits wide: a result beyond them is an error, where Python would go on.
absl::StatusOr<Value> Compute(Arithmetic operation, const Value& a, const Value& b, Budget& budget);
absl::StatusOr<Value> Negate(const Value& value);
absl::StatusOr<Value> Affirm(const Value& value);  // unary +

// a ~ b ~ ...: the texts of all, joined.
absl::StatusOr<Value> Concatenate(const std::vector<Value>& parts, Budget& budget);

// `value` as a float. REQUIRES: value.IsNumber().
double AsFloat(const Value& value);
// `value` as an integer: REQUIRES: kBool or kInt.
int64_t AsInt(const Value& value);

}  // namespace qanat::text::jinja
