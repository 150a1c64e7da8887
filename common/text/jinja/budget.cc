#include "common/text/jinja/budget.h"

#include <string>

#include "common/base/error.h"
#include "common/text/jinja/cat.h"

namespace qanat::text::jinja {
namespace {

absl::string_view ToAbsl(std::string_view text) { return {text.data(), text.size()}; }

}  // namespace

absl::Status RenderError(std::string_view message) {
  return WithReason(absl::InvalidArgumentError(ToAbsl(message)), kReasonFailed);
}

absl::Status LimitError(std::string_view message) {
  return WithReason(absl::InvalidArgumentError(ToAbsl(message)), kReasonLimit);
}

absl::Status Budget::OutOfSteps() const {
  return LimitError(std::string(Cat("rendering needs more than ", limits_.max_steps, " steps")));
}

}  // namespace qanat::text::jinja
