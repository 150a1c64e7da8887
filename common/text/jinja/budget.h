// What one rendering may use, and what it has used. Everything that takes time or memory in proportion to its
// input pays here first, so that no template and no data can hold a thread or fill the memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "absl/status/status.h"
#include "common/text/jinja/text.h"

namespace qanat::text::jinja {

struct Limits {
  size_t max_template_bytes = 256 * 1024;
  size_t max_output_bytes = 4 * 1024 * 1024;
  // One step an expression, statement, list element, change between control and plain text, or 64 bytes of
  // text made or read.
  int64_t max_steps = 1'000'000;
  // Nesting of a template's own text: parentheses, operators in a row, blocks.
  int max_syntax_depth = 200;
  // Nesting while rendering: expressions, blocks and macros calling macros.
  int max_call_depth = 500;
};

// Lists in lists, in a value of a template or of a JSON text.
inline constexpr int kMaxValueDepth = 100;

// What a string costs beside its bytes: it has memory of its own.
inline constexpr size_t kStepsPerString = 3;

// ReasonOf() the statuses of this folder.
inline constexpr std::string_view kReasonFailed = "TEMPLATE_FAILED";    // a mistake while rendering
inline constexpr std::string_view kReasonRefused = "TEMPLATE_REFUSED";  // the template called raise_exception
inline constexpr std::string_view kReasonLimit = "TEMPLATE_LIMIT";      // one of Limits was reached

// INVALID_ARGUMENT with the reason above: what a Python template would have raised.
absl::Status RenderError(std::string_view message);
absl::Status LimitError(std::string_view message);

class Budget {
 public:
  explicit Budget(const Limits& limits) : limits_(limits), steps_left_(limits.max_steps) {}

  const Limits& limits() const { return limits_; }

  absl::Status Spend(size_t steps) {
    if (steps > static_cast<size_t>(steps_left_)) return OutOfSteps();
    steps_left_ -= static_cast<int64_t>(steps);
    return absl::OkStatus();
  }
  absl::Status SpendBytes(size_t bytes) { return Spend(1 + bytes / 64); }
  // For copying a text: its marks take memory too.
  absl::Status SpendText(const Text& text) { return Spend(1 + text.size() / 64 + text.runs().size()); }

 private:
  absl::Status OutOfSteps() const;

  const Limits limits_;
  int64_t steps_left_;  // never negative
};

}  // namespace qanat::text::jinja
