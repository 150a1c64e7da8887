// A compiled template: the door to this folder.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "common/text/jinja/ast.h"
#include "common/text/jinja/budget.h"
#include "common/text/jinja/functions.h"
#include "common/text/jinja/text.h"
#include "common/text/jinja/value.h"

namespace qanat::text::jinja {

using Variables = absl::flat_hash_map<std::string, Value>;

// A template of Jinja's language as model files use it: like jinja2's ImmutableSandboxedEnvironment with
// trim_blocks, lstrip_blocks and loop controls, and transformers' tojson, raise_exception and strftime_now.
// What it does not know it refuses when compiling; it reaches nothing outside its variables.
// Owns its tree. Immutable: any number of threads may render at once.
//
// Compile: INVALID_ARGUMENT or UNIMPLEMENTED, "line <n>: <what>". Render: INVALID_ARGUMENT, with one of the
// reasons of budget.h; "line <n>: <what>" but for raise_exception, whose text stands alone.
class Template {
 public:
  static absl::StatusOr<std::unique_ptr<Template>> Compile(std::string_view source, Limits limits = {});

  // `now` may be null: then the template finds no strftime_now.
  absl::StatusOr<Text> Render(const Variables& variables, const TimeFormatter& now = nullptr) const;

 private:
  Template(ast::Body body, const Limits& limits) : body_(std::move(body)), limits_(limits) {}

  const ast::Body body_;
  const Limits limits_;
};

}  // namespace qanat::text::jinja
