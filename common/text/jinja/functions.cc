#include "common/text/jinja/functions.h"

#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "common/base/check.h"
#include "common/base/error.h"
#include "common/base/status_macros.h"
#include "common/text/jinja/access.h"
#include "common/text/jinja/cat.h"
#include "common/text/jinja/operators.h"
#include "common/text/jinja/printing.h"

namespace qanat::text::jinja {
namespace {

// In the order of Function.
constexpr std::string_view kNames[] = {"raise_exception", "strftime_now", "range", "namespace", "dict"};

// jinja2.sandbox.MAX_RANGE.
constexpr uint64_t kMaxRange = 100'000;

absl::StatusOr<Value> RaiseException(const Arguments& arguments, Budget& budget) {
  QANAT_ASSIGN_OR_RETURN(const Bound bound, Bind("raise_exception", arguments, {"message"}, 1));
  QANAT_ASSIGN_OR_RETURN(const Text message, Str(*bound[0], budget));
  return WithReason(absl::InvalidArgumentError(message.bytes()), kReasonRefused);
}

absl::StatusOr<Value> StrftimeNow(const Arguments& arguments, const TimeFormatter& now) {
  QANAT_ASSIGN_OR_RETURN(const Bound bound, Bind("strftime_now", arguments, {"format"}, 1));
  QANAT_ASSIGN_OR_RETURN(const Text* format, TextArgument("strftime_now", bound[0]));
  if (format == nullptr) return RenderError("strftime_now() wants a string");
  return Value::Plain(now(format->bytes()));
}

// range(stop), range(start, stop), range(start, stop, step): by position only.
absl::StatusOr<Value> Range(const Arguments& arguments, Budget& budget) {
  if (!arguments.named.empty()) return RenderError("range() takes no named arguments");
  QANAT_ASSIGN_OR_RETURN(const Bound bound, Bind("range", arguments, {"start", "stop", "step"}, 1));
  QANAT_ASSIGN_OR_RETURN(int64_t start, IntArgument("range", bound[0], 0));
  QANAT_ASSIGN_OR_RETURN(int64_t stop, IntArgument("range", bound[1], start));
  if (!bound[1].has_value()) start = 0;
  QANAT_ASSIGN_OR_RETURN(const int64_t step, IntArgument("range", bound[2], 1));
  if (step == 0) return RenderError("range() step must not be zero");
  // Unsigned: the distance of two int64 always fits.
  uint64_t count = 0;
  const uint64_t from = static_cast<uint64_t>(start);
  const uint64_t to = static_cast<uint64_t>(stop);
  if (step > 0 && start < stop) count = (to - from - 1) / static_cast<uint64_t>(step) + 1;
  if (step < 0 && start > stop) count = (from - to - 1) / (uint64_t{0} - static_cast<uint64_t>(step)) + 1;
  if (count > kMaxRange) return RenderError(Cat("range() is limited to ", kMaxRange, " items"));
  QANAT_RETURN_IF_ERROR(budget.Spend(count));
  std::vector<Value> items;
  items.reserve(count);
  for (uint64_t i = 0; i < count; ++i) {
    items.push_back(Value::Int(static_cast<int64_t>(from + i * static_cast<uint64_t>(step))));
  }
  return MakeList(List::Type::kRange, std::move(items), budget);
}

// dict(mapping or pairs, name=value, ...).
absl::StatusOr<Value> MakeDict(const Arguments& arguments, Budget& budget) {
  if (arguments.positional.size() > 1) return RenderError("dict() takes at most one positional argument");
  auto dict = std::make_shared<Dict>();
  if (!arguments.positional.empty()) {
    const Value& source = arguments.positional[0];
    if (source.Is(Kind::kDict)) {
      QANAT_RETURN_IF_ERROR(budget.Spend(source.dict().entries().size()));
      *dict = source.dict();
    } else {
      QANAT_ASSIGN_OR_RETURN(const std::vector<Value> pairs, Items(source, budget));
      for (const Value& pair : pairs) {
        QANAT_ASSIGN_OR_RETURN(const std::vector<Value> parts, Items(pair, budget));
        if (parts.size() != 2) return RenderError("dict() wants pairs");
        QANAT_RETURN_IF_ERROR(dict->Set(parts[0], parts[1]));
      }
    }
  }
  for (const auto& [name, value] : arguments.named) {
    QANAT_RETURN_IF_ERROR(budget.Spend(1));
    QANAT_RETURN_IF_ERROR(dict->Set(Value::Plain(name), value));
  }
  return Value::Of(std::shared_ptr<const Dict>(std::move(dict)));
}

}  // namespace

std::optional<Function> FindFunction(std::string_view name) {
  for (size_t i = 0; i < std::size(kNames); ++i) {
    if (kNames[i] == name) return static_cast<Function>(i);
  }
  return std::nullopt;
}

std::string_view NameOf(Function function) { return kNames[static_cast<size_t>(function)]; }

absl::StatusOr<Value> CallFunction(Function function, const Arguments& arguments, const TimeFormatter& now,
                                   Budget& budget) {
  switch (function) {
    case Function::kRaiseException:
      return RaiseException(arguments, budget);
    case Function::kStrftimeNow:
      return StrftimeNow(arguments, now);
    case Function::kRange:
      return Range(arguments, budget);
    case Function::kDict:
      return MakeDict(arguments, budget);
    case Function::kNamespace:
      break;
  }
  QANAT_CHECK(false) << "namespace() is made by the interpreter";
  return Value();
}

}  // namespace qanat::text::jinja
