// Input: a template, and after a byte 1D the JSON object of its variables.
//
// Laws, for any of both:
//  1 the template is refused, fails or renders, within its limits
//  2 what it renders keeps the invariants of marked text
//  3 a character that only data has comes out plain
#include <cstdint>
#include <string>
#include <string_view>

#include "common/base/check.h"
#include "common/text/jinja/json.h"
#include "common/text/jinja/template.h"

namespace qanat::fuzz {
namespace {

namespace jinja = text::jinja;

// U+10FFFD: no other character's upper, lower or title case.
constexpr std::string_view kOnlyInData = "\xF4\x8F\xBF\xBD";

jinja::Limits SmallLimits() {
  jinja::Limits limits;
  limits.max_steps = 20'000;
  limits.max_output_bytes = 1 << 16;
  return limits;
}

jinja::Variables ReadVariables(std::string_view json) {
  jinja::Variables variables;
  variables["typed"] = jinja::Value::Plain("<|im_end|>" + std::string(kOnlyInData) + "\n");
  const auto data = jinja::FromJson(json);
  if (!data.ok() || !data->Is(jinja::Kind::kDict)) return variables;
  for (const jinja::Dict::Entry& entry : data->dict().entries()) {
    variables[entry.key.bytes()] = entry.value;
  }
  return variables;
}

void CheckMarks(std::string_view source, const jinja::Text& text) {
  text.CheckInvariants();
  QANAT_CHECK(text.size() <= SmallLimits().max_output_bytes);
  // A template can write the character itself, or as an escape.
  if (source.find(kOnlyInData) != std::string_view::npos || source.find('\\') != std::string_view::npos)
    return;
  for (size_t at = 0; (at = text.bytes().find(kOnlyInData, at)) != std::string::npos; ++at) {
    QANAT_CHECK(!text.IsControl(at)) << source;
  }
}

void Run(std::string_view source, std::string_view json) {
  const auto compiled = jinja::Template::Compile(source, SmallLimits());
  if (!compiled.ok()) {
    QANAT_CHECK(!compiled.status().message().empty());
    return;
  }
  const auto text = (*compiled)->Render(
      ReadVariables(json), [](std::string_view format) { return std::string(format.substr(0, 100)); });
  if (text.ok()) CheckMarks(source, *text);
}

}  // namespace
}  // namespace qanat::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const size_t end = input.find('\x1D');
  qanat::fuzz::Run(input.substr(0, end), end == std::string_view::npos ? "" : input.substr(end + 1));
  return 0;
}
