// Renders a template over variables written as JSON.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "absl/status/statusor.h"
#include "common/base/status_macros.h"
#include "common/text/jinja/json.h"
#include "common/text/jinja/template.h"

namespace qanat::text::jinja {

inline absl::StatusOr<Text> RenderTemplate(std::string_view source, std::string_view json = "{}",
                                           Limits limits = {}) {
  QANAT_ASSIGN_OR_RETURN(const auto compiled, Template::Compile(source, limits));
  QANAT_ASSIGN_OR_RETURN(const Value data, FromJson(json));
  Variables variables;
  for (const Dict::Entry& entry : data.dict().entries()) variables[entry.key.bytes()] = entry.value;
  QANAT_ASSIGN_OR_RETURN(Text text, compiled->Render(variables, [](std::string_view format) {
    return "now(" + std::string(format) + ")";
  }));
  text.CheckInvariants();
  return text;
}

// "C" before what the template wrote, "P" before what data wrote: "C<a>P<b>".
inline std::string Marked(const Text& text) {
  std::string marked;
  size_t begin = 0;
  for (const Text::Run& run : text.runs()) {
    marked += (run.control ? "C<" : "P<") + text.bytes().substr(begin, run.end - begin) + ">";
    begin = run.end;
  }
  return marked;
}

}  // namespace qanat::text::jinja
