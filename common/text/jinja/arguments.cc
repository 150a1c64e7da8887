#include "common/text/jinja/arguments.h"

#include <algorithm>

#include "common/base/status_macros.h"
#include "common/text/jinja/cat.h"
#include "common/text/jinja/operators.h"

namespace qanat::text::jinja {
namespace {

absl::Status WrongArgument(std::string_view callee, const Value& value, std::string_view wanted) {
  if (value.Is(Kind::kUndefined)) return UndefinedError(value);
  return RenderError(Cat(callee, "() wants ", std::string(wanted), ", not '", TypeName(value), "'"));
}

}  // namespace

absl::StatusOr<Bound> Bind(std::string_view callee, const Arguments& arguments,
                           std::initializer_list<std::string_view> parameters, size_t required) {
  if (arguments.positional.size() > parameters.size()) {
    return RenderError(
        Cat(callee, "() takes at most ", parameters.size(), " arguments, got ", arguments.positional.size()));
  }
  Bound bound(arguments.positional.begin(), arguments.positional.end());
  bound.resize(parameters.size());
  for (const auto& [name, value] : arguments.named) {
    const auto* found = std::find(parameters.begin(), parameters.end(), name);
    if (found == parameters.end()) {
      return RenderError(Cat(callee, "() has no parameter '", name, "'"));
    }
    std::optional<Value>& slot = bound[static_cast<size_t>(found - parameters.begin())];
    if (slot.has_value()) return RenderError(Cat(callee, "() got '", name, "' twice"));
    slot = value;
  }
  for (size_t i = 0; i < required; ++i) {
    if (!bound[i].has_value()) {
      return RenderError(Cat(callee, "() lacks the argument '", parameters.begin()[i], "'"));
    }
  }
  return bound;
}

absl::StatusOr<int64_t> IntArgument(std::string_view callee, const std::optional<Value>& argument,
                                    int64_t otherwise) {
  if (!argument.has_value()) return otherwise;
  if (!argument->Is(Kind::kInt) && !argument->Is(Kind::kBool))
    return WrongArgument(callee, *argument, "an integer");
  return AsInt(*argument);
}

bool TruthArgument(const std::optional<Value>& argument, bool otherwise) {
  return argument.has_value() ? Truth(*argument) : otherwise;
}

absl::StatusOr<const Text*> TextArgument(std::string_view callee, const std::optional<Value>& argument) {
  if (!argument.has_value() || argument->Is(Kind::kNone)) return nullptr;
  if (!argument->Is(Kind::kString)) return WrongArgument(callee, *argument, "a string");
  return &argument->text();
}

}  // namespace qanat::text::jinja
