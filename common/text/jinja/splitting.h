// The methods that cut a string: split, rsplit, splitlines, partition, rpartition.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "common/text/jinja/arguments.h"
#include "common/text/jinja/budget.h"
#include "common/text/jinja/text.h"
#include "common/text/jinja/value.h"

namespace qanat::text::jinja {

absl::StatusOr<Value> SplitMethod(const Text& self, const Arguments& arguments, Budget& budget);
absl::StatusOr<Value> RightSplitMethod(const Text& self, const Arguments& arguments, Budget& budget);
absl::StatusOr<Value> SplitLinesMethod(const Text& self, const Arguments& arguments, Budget& budget);
absl::StatusOr<Value> PartitionMethod(const Text& self, const Arguments& arguments, Budget& budget);
absl::StatusOr<Value> RightPartitionMethod(const Text& self, const Arguments& arguments, Budget& budget);

// The lines, as str.splitlines() ends them: strings that are paid for one by one.
absl::StatusOr<std::vector<Value>> SplitLines(const Text& text, bool keep_ends, Budget& budget);

}  // namespace qanat::text::jinja
