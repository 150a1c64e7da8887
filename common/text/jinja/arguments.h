// The arguments of one call, evaluated, and how they find their parameters.
#pragma once

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/text/jinja/value.h"

namespace qanat::text::jinja {

struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;
};

// One entry a parameter; unset where the call gave none.
using Bound = std::vector<std::optional<Value>>;

// Python's rules: by position, then by name; none twice, none left over, the first `required` present.
// INVALID_ARGUMENT naming `callee` otherwise.
absl::StatusOr<Bound> Bind(std::string_view callee, const Arguments& arguments,
                           std::initializer_list<std::string_view> parameters, size_t required);

// Reading one bound argument. INVALID_ARGUMENT naming `callee` when it has another type.
absl::StatusOr<int64_t> IntArgument(std::string_view callee, const std::optional<Value>& argument,
                                    int64_t otherwise);
bool TruthArgument(const std::optional<Value>& argument, bool otherwise);
// Null when unset or None.
absl::StatusOr<const Text*> TextArgument(std::string_view callee, const std::optional<Value>& argument);

}  // namespace qanat::text::jinja
