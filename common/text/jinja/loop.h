// One run of a for statement: which items come, and what `loop` tells of them.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "common/text/jinja/value.h"

namespace qanat::text::jinja {

// Like jinja2, decides about an item (the "if" of a for) only when it is wanted: by the loop itself, or
// earlier by loop.last, loop.nextitem or loop.length. Lives on the stack of the for statement. Errors: those
// of the condition.
class Loop {
 public:
  using Condition = std::function<absl::StatusOr<bool>(const Value& item)>;

  // `condition` may be null: every item comes.
  Loop(std::vector<Value> items, Condition condition)
      : items_(std::move(items)), condition_(std::move(condition)) {}

  // Goes on to the next item. False at the end.
  absl::StatusOr<bool> Advance();
  // REQUIRES, as for Attribute: Advance() was true.
  const Value& current() const { return *current_; }

  // loop.name. REQUIRES: name is one that the parser lets through.
  absl::StatusOr<Value> Attribute(std::string_view name);

 private:
  // Decides about items until one is ready. False when there is none left.
  absl::StatusOr<bool> Peek();
  absl::StatusOr<int64_t> Length();

  const std::vector<Value> items_;
  const Condition condition_;
  size_t undecided_ = 0;     // items from here on have not been decided about
  std::deque<Value> ready_;  // decided to come, but not yet current
  std::optional<Value> previous_;
  std::optional<Value> current_;
  int64_t index0_ = -1;
  std::optional<int64_t> length_;
};

}  // namespace qanat::text::jinja
