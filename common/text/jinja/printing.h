// Values as text, exactly as Python's str() and repr() write them.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/text/jinja/budget.h"
#include "common/text/jinja/text.h"
#include "common/text/jinja/value.h"

namespace qanat::text::jinja {

// Appends str(value). A string keeps the marks of who wrote it; everything else is plain.
// INVALID_ARGUMENT for functions, methods and namespaces, whose text in Python is an address or internal.
absl::Status AppendStr(const Value& value, Text& out, Budget& budget);
absl::StatusOr<Text> Str(const Value& value, Budget& budget);

// Appends repr(value).
absl::Status AppendRepr(const Value& value, std::string& out, Budget& budget);

// The shortest text that reads back as `value`: "0.1", "1e+16", "nan".
std::string FloatRepr(double value);

}  // namespace qanat::text::jinja
