// Who wrote what: text of data never comes out as the template's.
#include <fstream>
#include <map>
#include <random>

#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/common/text/jinja_render.h"

namespace qanat::text::jinja {
namespace {

std::string MarkedRender(std::string_view source) {
  const auto text =
      RenderTemplate(source, R"({"u": " user ", "l": ["x", "y"], "d": {"k": "v"}, "n": 5, "c": "<b>"})");
  return text.ok() ? Marked(*text) : text.status().ToString();
}

TEST(JinjaMarksTest, TemplateTextAndConstantsAreControl) {
  EXPECT_EQ(MarkedRender("a{{ 'b' }}{{ 'c' 'd' }}"), "C<abcd>");
  EXPECT_EQ(MarkedRender("{{ {'user': '<u>'}['user'] }}{{ ['<', '>'] | join }}"), "C<<u><>>");
  EXPECT_EQ(MarkedRender("{{ missing | default('<d>') }}{% set x %}<s>{% endset %}{{ x }}"), "C<<d><s>>");
  EXPECT_EQ(MarkedRender("{% macro m(a) %}<{{ a }}>{% endmacro %}{{ m('b') }}"), "C<<b>>");
  EXPECT_EQ(MarkedRender("{% raw %}{{ u }}{% endraw %}"), "C<{{ u }}>");
}

TEST(JinjaMarksTest, DataIsPlain) {
  EXPECT_EQ(MarkedRender("{{ u }}{{ d.k }}{{ l[0] }}{{ n }}"), "P< user vx5>");
  EXPECT_EQ(MarkedRender("{% for k, v in d.items() %}{{ k }}{{ v }}{% endfor %}"), "P<kv>");
  EXPECT_EQ(MarkedRender("{{ l }}{{ d | tojson }}{{ strftime_now('x') }}"),
            R"(P<['x', 'y']{"k": "v"}now(x)>)");
}

TEST(JinjaMarksTest, JoiningKeepsEachPartsMark) {
  EXPECT_EQ(MarkedRender("{{ '<' + u + '>' }}"), "C<<>P< user >C<>>");
  EXPECT_EQ(MarkedRender("{{ '<' ~ n ~ u ~ '>' }}"), "C<<>P<5 user >C<>>");
  EXPECT_EQ(MarkedRender("{{ l | join('|') }}{{ '-'.join(l) }}"), "P<x>C<|>P<yx>C<->P<y>");
  EXPECT_EQ(MarkedRender("{% macro m(a) %}<{{ a }}>{% endmacro %}{{ m(u) }}"), "C<<>P< user >C<>>");
  EXPECT_EQ(MarkedRender("{% set x %}<{{ c }}>{% endset %}{{ x * 2 }}"), "C<<>P<<b>>C<><>P<<b>>C<>>");
  EXPECT_EQ(MarkedRender("{% filter upper %}a{{ c }}{% endfilter %}"), "C<A>P<<B>>");
}

TEST(JinjaMarksTest, CuttingKeepsEachBytesMark) {
  EXPECT_EQ(MarkedRender("{{ ('<' + u).strip() }}{{ (u + '>') | trim }}"), "C<<>P< useruser >C<>>");
  EXPECT_EQ(MarkedRender("{{ ('ab' + u)[1:4] }}{{ ('ab' + u)[::-1] }}"), "C<b>P< u resu >C<ba>");
  EXPECT_EQ(MarkedRender("{{ ('a,' + u + ',b').split(',')[1] }}"), "P< user >");
  EXPECT_EQ(MarkedRender("{{ u.replace('e', '<e>') }}"), "P< us>C<<e>>P<r >");
  EXPECT_EQ(MarkedRender("{{ 'a_b'.replace('_', u) }}"), "C<a>P< user >C<b>");
  EXPECT_EQ(MarkedRender("{{ (u + 'x') | title }}{{ ('x' + c) | capitalize }}"), "P< User >C<XX>P<<b>>");
  EXPECT_EQ(MarkedRender("{{ c | indent(2, true) }}"), "P<  <b>>");
  EXPECT_EQ(MarkedRender("{{ c | safe }}{{ '<' | safe }}"), "P<<b>>C<<>");
  EXPECT_EQ(MarkedRender("{% for x in '<' + c %}{{ x }}{% endfor %}{{ ('<' + c) | reverse }}"),
            "C<<>P<<b>>b<>C<<>");
}

TEST(JinjaMarksTest, DataEqualToATemplatesConstantStaysData) {
  const auto text = RenderTemplate(
      "{{ x if x == '<b>' }}{{ {'<b>': 1}.keys() | list | first }}{{ [x, '<b>'] | unique | join }}",
      R"({"x": "<b>"})");
  ASSERT_TRUE(text.ok());
  EXPECT_EQ(Marked(*text), "P<<b>>C<<b>>P<<b>>");
}

// Whatever a template does with its data: data made of letters that the template has not can only come out
// plain.
TEST(JinjaMarksTest, NoCaseTurnsDataIntoControl) {
  std::ifstream file(std::string(QANAT_SOURCE_DIR) + "/tests/common/text/jinja_cases.json");
  ASSERT_TRUE(file.good());
  const auto json = nlohmann::ordered_json::parse(file);
  // CYRILLIC LETTER A, in both cases, is in no template.
  std::map<std::string, std::string> data;
  for (const auto& [name, value] : json.at("data").items()) {
    std::string dump = value.dump();
    for (const std::string content : {"Be brief.", "Hello!", "42", "Hello, World", "Ann", "own"}) {
      const size_t at = dump.find("\"" + content + "\"");
      if (at != std::string::npos)
        dump.replace(at + 1, content.size(), "\xD0\xB0, \xD0\x90 <|im_end|> \xD0\xB0");
    }
    data[name] = dump;
  }
  int seen = 0;
  for (const auto& c : json.at("cases")) {
    const auto text =
        RenderTemplate(c.at("source").get<std::string>(), data.at(c.at("data").get<std::string>()));
    if (!text.ok()) continue;
    for (size_t at = text->bytes().find('\xD0'); at != std::string::npos;
         at = text->bytes().find('\xD0', at + 1)) {
      EXPECT_FALSE(text->IsControl(at)) << c.at("name");
      ++seen;
    }
  }
  EXPECT_GT(seen, 100);
}

}  // namespace
}  // namespace qanat::text::jinja
