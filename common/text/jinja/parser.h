// A template's source as a tree.
#pragma once

#include <string_view>

#include "absl/status/statusor.h"
#include "common/text/jinja/ast.h"
#include "common/text/jinja/budget.h"

namespace qanat::text::jinja {

// Reads jinja2's language with the tags for, if, set, macro, filter, with, raw, break, continue and
// generation. INVALID_ARGUMENT for what is wrong or beyond `limits`, UNIMPLEMENTED for what this interpreter
// does not have: other tags, filters, tests, methods and functions, macros below the top level, recursive
// loops, the loop object as a value, * and ** in calls. Messages are "line <n>: <what>".
absl::StatusOr<ast::Body> Parse(std::string_view source, const Limits& limits);

}  // namespace qanat::text::jinja
