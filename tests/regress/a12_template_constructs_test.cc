// A12: what real templates use renders; what is not known is refused with its name, and ends no process.
#include "common/text/chat_template.h"
#include "gtest/gtest.h"

namespace qanat {
namespace {

std::string Render(const std::string& source) {
  const auto chat_template = text::ChatTemplate::Create(
      source, "<s>", "</s>", [](std::string_view format) { return "at " + std::string(format); });
  if (!chat_template.ok()) return chat_template.status().ToString();
  text::ChatInput input;
  input.messages = {{"system", " S ", "", "", ""}, {"user", "ä", "", "", ""}, {"assistant", "A", "", "", ""}};
  const auto spans = (*chat_template)->Render(input);
  if (!spans.ok()) return spans.status().ToString();
  std::string text;
  for (const text::TextSpan& span : *spans) text += span.text;
  return text;
}

TEST(A12TemplateConstructsTest, LoopsBreakAndContinue) {
  EXPECT_EQ(Render("{% for m in messages %}{% if loop.first %}{% continue %}{% endif %}{{ m.role }}"
                   "{% if loop.previtem.role == 'system' %}{% break %}{% endif %}{% endfor %}"),
            "user");
}

TEST(A12TemplateConstructsTest, NamespacesMacrosAndSlices) {
  EXPECT_EQ(Render("{% set ns = namespace(n=0) %}{% macro show(m, mark='-') %}{{ mark ~ m.content|trim }}{% "
                   "endmacro %}"
                   "{% for m in messages[1:] %}{% set ns.n = ns.n + 1 %}{{ show(m) }}{% endfor %}{{ ns.n }}"
                   "{{ show(messages[0], mark='+') }}"),
            "-ä-A2+S");
}

TEST(A12TemplateConstructsTest, FiltersWithTheirParameters) {
  EXPECT_EQ(
      Render("{{ messages[1].content | tojson(ensure_ascii=true) }}{{ messages[1].content | tojson }}"
             "{{ messages | selectattr('role', 'equalto', 'user') | map(attribute='content') | join(',') }}"),
      "\"\\u00e4\"\"ä\"ä");
}

TEST(A12TemplateConstructsTest, TimeGenerationAndWhitespace) {
  EXPECT_EQ(Render("{{ strftime_now('%Y') }}\n  {%- for m in messages if m.role == 'assistant' %}\n"
                   "    {% generation %}\n{{ m.content }}\n    {% endgeneration %}\n{% endfor -%}\n  end"),
            "at %YA\nend");
}

TEST(A12TemplateConstructsTest, UnknownConstructsAreNamed) {
  EXPECT_EQ(Render("\n{% include 'x' %}"), "UNIMPLEMENTED: line 2: the tag include is not supported");
  EXPECT_EQ(Render("{{ messages | groupby('role') }}"),
            "UNIMPLEMENTED: line 1: the filter groupby is not supported");
}

}  // namespace
}  // namespace qanat
