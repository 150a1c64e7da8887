// JSON to values and back, as Python's json module does it.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/text/jinja/budget.h"
#include "common/text/jinja/value.h"

namespace qanat::text::jinja {

// Deeper JSON from outside is refused while it is being read.
inline constexpr int kMaxJsonDepth = 64;

// All text in it is plain. Of equal keys in an object the last counts, at the first one's place.
// INVALID_ARGUMENT for what is no JSON, nested too deeply, or an integer beyond 64 bits.
absl::StatusOr<Value> FromJson(std::string_view json);

// json.dumps(). The defaults are what transformers' tojson filter uses.
struct JsonStyle {
  bool ensure_ascii = false;
  bool sort_keys = false;
  std::optional<std::string> indent;  // set: one item a line, indented by this
  std::string item_separator = ", ";  // "," is the default where `indent` is set
  std::string key_separator = ": ";
};

// Appends to `out`. INVALID_ARGUMENT for what has no JSON form: undefined, functions, namespaces, iterators.
absl::Status AppendJson(const Value& value, const JsonStyle& style, std::string& out, Budget& budget);

}  // namespace qanat::text::jinja
