// The global functions of a chat template.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "common/text/jinja/arguments.h"
#include "common/text/jinja/budget.h"
#include "common/text/jinja/value.h"

namespace qanat::text::jinja {

// The present time, written as strftime's `format` says.
using TimeFormatter = std::function<std::string(std::string_view format)>;

// raise_exception, strftime_now, range, namespace, dict.
std::optional<Function> FindFunction(std::string_view name);
std::string_view NameOf(Function function);

// Calls any of them but namespace, whose value the interpreter makes itself.
// INVALID_ARGUMENT for wrong arguments, with kReasonRefused and just its text for raise_exception.
// REQUIRES: function is not kNamespace; `now` is callable for kStrftimeNow.
absl::StatusOr<Value> CallFunction(Function function, const Arguments& arguments, const TimeFormatter& now,
                                   Budget& budget);

}  // namespace qanat::text::jinja
