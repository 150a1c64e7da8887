#include "common/text/jinja/loop.h"

#include <utility>

#include "common/base/check.h"
#include "common/base/status_macros.h"

namespace qanat::text::jinja {

absl::StatusOr<bool> Loop::Peek() {
  while (ready_.empty() && undecided_ < items_.size()) {
    const Value& item = items_[undecided_++];
    bool comes = true;
    if (condition_ != nullptr) {
      QANAT_ASSIGN_OR_RETURN(comes, condition_(item));
    }
    if (comes) ready_.push_back(item);
  }
  return !ready_.empty();
}

absl::StatusOr<bool> Loop::Advance() {
  QANAT_ASSIGN_OR_RETURN(const bool more, Peek());
  if (!more) return false;
  previous_ = std::exchange(current_, std::move(ready_.front()));
  ready_.pop_front();
  ++index0_;
  return true;
}

absl::StatusOr<int64_t> Loop::Length() {
  if (!length_.has_value()) {
    std::deque<Value> rest;
    while (true) {
      QANAT_ASSIGN_OR_RETURN(const bool more, Peek());
      if (!more) break;
      rest.push_back(std::move(ready_.front()));
      ready_.pop_front();
    }
    ready_ = std::move(rest);
    length_ = index0_ + 1 + static_cast<int64_t>(ready_.size());
  }
  return *length_;
}

absl::StatusOr<Value> Loop::Attribute(std::string_view name) {
  if (name == "index") return Value::Int(index0_ + 1);
  if (name == "index0") return Value::Int(index0_);
  if (name == "first") return Value::Bool(index0_ == 0);
  if (name == "previtem") return index0_ == 0 ? Value::Missing("there is no previous item") : *previous_;
  if (name == "last" || name == "nextitem") {
    QANAT_ASSIGN_OR_RETURN(const bool more, Peek());
    if (name == "last") return Value::Bool(!more);
    return more ? ready_.front() : Value::Missing("there is no next item");
  }
  QANAT_ASSIGN_OR_RETURN(const int64_t length, Length());
  if (name == "length") return Value::Int(length);
  if (name == "revindex") return Value::Int(length - index0_);
  QANAT_CHECK(name == "revindex0") << "the parser lets other attributes of the loop through";
  return Value::Int(length - index0_ - 1);
}

}  // namespace qanat::text::jinja
