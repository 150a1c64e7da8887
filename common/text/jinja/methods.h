// The methods of strings, dicts and lists.
#pragma once

#include <string_view>

#include "absl/status/statusor.h"
#include "common/text/jinja/arguments.h"
#include "common/text/jinja/budget.h"
#include "common/text/jinja/value.h"

namespace qanat::text::jinja {

enum class MemberClass {
  kNone,    // Python's type has no member of that name
  kMethod,  // it has a method
  kUnsafe,  // it has one that the sandbox hides: it would change the object, or begins with an underscore
};
MemberClass ClassifyMember(const Value& value, std::string_view name);

// Whether some type's method of that name can be called here.
bool IsSupportedMethod(std::string_view name);

// INVALID_ARGUMENT for wrong arguments and for methods of Python that are not supported.
absl::StatusOr<Value> CallMethod(const Method& method, const Arguments& arguments, Budget& budget);

}  // namespace qanat::text::jinja
