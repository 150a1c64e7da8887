// Python's str methods.
#pragma once

#include <string_view>

#include "absl/status/statusor.h"
#include "common/text/jinja/arguments.h"
#include "common/text/jinja/budget.h"
#include "common/text/jinja/text.h"
#include "common/text/jinja/value.h"

namespace qanat::text::jinja {

struct StringMethod {
  std::string_view name;
  absl::StatusOr<Value> (*call)(const Text& self, const Arguments& arguments, Budget& budget);
  bool takes_named;  // Python lets its arguments be named
};

// Null for a method that is not supported.
const StringMethod* FindStringMethod(std::string_view name);

// REQUIRES: self is a string.
absl::StatusOr<Value> CallStringMethod(const StringMethod& method, const Value& self,
                                       const Arguments& arguments, Budget& budget);

// What filters share with the methods of the same name.
enum class Side { kLeft = 1, kRight = 2, kBoth = 3 };
// Without the characters of `characters`, or blanks if null, at its ends.
Text Strip(const Text& text, const Text* characters, Side side);
// With the first `count` of `old`, or all if negative, replaced.
absl::StatusOr<Text> Replace(const Text& text, const Text& old, const Text& replacement, int64_t count,
                             Budget& budget);

}  // namespace qanat::text::jinja
