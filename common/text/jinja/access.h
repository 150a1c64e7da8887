// Reaching into values: attributes, subscripts, slices, iteration. As jinja2's sandbox does it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "common/text/jinja/budget.h"
#include "common/text/jinja/value.h"

namespace qanat::text::jinja {

// value.name: a method or attribute before a dict's entry. Undefined when there is neither.
absl::StatusOr<Value> Attribute(const Value& value, const std::string& name, Budget& budget);

// value[index]: an entry or item before a method. Undefined when there is neither.
absl::StatusOr<Value> Subscript(const Value& value, const Value& index, Budget& budget);

// value[start:stop:step]; a bound that is None is left out.
absl::StatusOr<Value> Slice(const Value& value, const Value& start, const Value& stop, const Value& step,
                            Budget& budget);

// len(value).
absl::StatusOr<int64_t> Length(const Value& value, Budget& budget);

// The items that iterating gives: list items, dict keys, characters. Uses up an iterator.
absl::StatusOr<std::vector<Value>> Items(const Value& value, Budget& budget);

// Whether Items() would find any kind of items.
bool IsIterable(const Value& value);

// The key, value pairs of a dict as tuples.
absl::StatusOr<std::vector<Value>> Pairs(const Dict& dict, Budget& budget);

}  // namespace qanat::text::jinja
