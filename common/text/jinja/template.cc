#include "common/text/jinja/template.h"

#include <utility>

#include "absl/memory/memory.h"
#include "common/base/status_macros.h"
#include "common/text/jinja/interpreter.h"
#include "common/text/jinja/parser.h"

namespace qanat::text::jinja {

absl::StatusOr<std::unique_ptr<Template>> Template::Compile(std::string_view source, Limits limits) {
  QANAT_ASSIGN_OR_RETURN(ast::Body body, Parse(source, limits));
  return absl::WrapUnique(new Template(std::move(body), limits));
}

absl::StatusOr<Text> Template::Render(const Variables& variables, const TimeFormatter& now) const {
  return Interpreter(variables, now, limits_).Run(body_);
}

}  // namespace qanat::text::jinja
