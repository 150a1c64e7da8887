// The tests: value is name(arguments).
#pragma once

#include <string_view>

#include "absl/status/statusor.h"
#include "common/text/jinja/arguments.h"
#include "common/text/jinja/budget.h"
#include "common/text/jinja/value.h"

namespace qanat::text::jinja {

struct Predicate {
  std::string_view name;
  size_t num_arguments;  // exactly so many, by position
  absl::StatusOr<bool> (*call)(const Value& value, const std::vector<Value>& arguments, Budget& budget);
};

// Null for a test that is not supported.
const Predicate* FindPredicate(std::string_view name);

absl::StatusOr<bool> CallPredicate(const Predicate& predicate, const Value& value, const Arguments& arguments,
                                   Budget& budget);

}  // namespace qanat::text::jinja
