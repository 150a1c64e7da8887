// What is refused, and what ends where it must.
#include <string>

#include "common/base/error.h"
#include "common/text/jinja/splitting.h"
#include "gtest/gtest.h"
#include "tests/common/text/jinja_render.h"

namespace qanat::text::jinja {
namespace {

std::string Repeat(std::string_view text, int times) {
  std::string out;
  for (int i = 0; i < times; ++i) out += text;
  return out;
}

std::string ReasonOfRender(std::string_view source, std::string_view json = "{}") {
  return ReasonOf(RenderTemplate(source, json).status());
}

TEST(JinjaRefusalTest, NamesTheLineAndTheConstruct) {
  const struct {
    std::string source;
    std::string message;
  } kCases[] = {
      {"a\nb{% include 'x' %}", "line 2: the tag include is not supported"},
      {"{% call m() %}{% endcall %}", "line 1: the tag call is not supported"},
      {"\n\n{{ 1 | wordcount }}", "line 3: the filter wordcount is not supported"},
      {"{{ 1 is escaped }}", "line 1: the test escaped is not supported"},
      {"{{ x.format(1) }}", "line 1: the method format is not supported"},
      {"{% if x %}\n{{ x.append(1) }}{% endif %}", "line 2: the method append is not supported"},
      {"{{ f(1) }}", "line 1: the function f is not supported"},
      {"{{ cycler }}", "line 1: the function cycler is not supported"},
      {"{% macro m() %}{{ varargs }}{% endmacro %}", "line 1: the name varargs is not supported"},
      {"{% for x in y recursive %}{% endfor %}", "line 1: a recursive for loop is not supported"},
      {"{% for x in y %}{{ loop }}{% endfor %}", "line 1: the loop used as a value is not supported"},
      {"{% for x in y %}{{ loop.cycle(1) }}{% endfor %}", "line 1: loop.cycle is not supported"},
      {"{% for x in y %}{% macro m() %}{% endmacro %}{% endfor %}",
       "line 1: a macro below the top level is not supported"},
      {"{{ f(*x) }}", "line 1: * in a call is not supported"},
      {"{{ x[1, 2] }}", "line 1: a subscript with commas is not supported"},
      {"{{ self.x }}", "line 1: 'self' is not supported"},
      {"{{ 0x10 }}", "line 1: the number form after 0 is not supported"},
      {"{{ 9999999999999999999 }}", "line 1: the number 9999999999999999999 is not supported"},
  };
  for (const auto& c : kCases) {
    const absl::Status status = Template::Compile(c.source).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented) << c.source;
    EXPECT_EQ(std::string(status.message()), c.message);
  }
}

TEST(JinjaRefusalTest, MistakesAreInvalidAndNameTheLine) {
  const struct {
    std::string source;
    std::string message;
  } kCases[] = {
      {"\n{% if x %}", "line 2: the template ends before 'endif'"},
      {"{% endfor %}", "line 1: 'endfor' belongs to no open block"},
      {"{{ 'a }}", "line 1: a string does not end"},
      {"{{ (1] }}", "line 1: unexpected ']'"},
      {"{# x", "line 1: a comment does not end"},
      {"{% break %}", "line 1: break outside a loop"},
      {"{{ 1 +\n\n* 2 }}", "line 3: unexpected '*'"},
      {"{{ '\\x4' }}", "line 1: a cut escape in a string"},
  };
  for (const auto& c : kCases) {
    const absl::Status status = Template::Compile(c.source).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << c.source;
    EXPECT_EQ(std::string(status.message()), c.message);
  }
}

TEST(JinjaRenderErrorTest, NamesTheLine) {
  const absl::Status status = RenderTemplate("a\n{{ 1 }}\n{{ x.y }}").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(std::string(status.message()), "line 3: 'x' is undefined");
  EXPECT_EQ(ReasonOf(status), kReasonFailed);
}

TEST(JinjaRenderErrorTest, RaiseExceptionSpeaksForItself) {
  const absl::Status status = RenderTemplate("{{ raise_exception('Roles must ' ~ 'alternate') }}").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(std::string(status.message()), "Roles must alternate");
  EXPECT_EQ(ReasonOf(status), kReasonRefused);
}

TEST(JinjaLimitsTest, StepsEndLongLoops) {
  EXPECT_EQ(ReasonOfRender("{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}"),
            kReasonLimit);
}

TEST(JinjaLimitsTest, StepsEndGrowingValues) {
  for (const std::string source :
       {"{% set n = namespace(s='aaaaaaaa') %}{% for i in range(99) %}{% set n.s = n.s + n.s %}{% endfor %}",
        "{% set n = namespace(s='aaaaaaaa') %}{% for i in range(99) %}{% set n.s = n.s.replace('a', 'aaaa') "
        "%}{% endfor %}",
        "{% set n = namespace(s=[1]) %}{% for i in range(99) %}{% set n.s = n.s + n.s %}{% endfor %}",
        "{% set n = namespace(s=[1]) %}{% for i in range(60) %}{% set n.s = [n.s, n.s] %}{% endfor %}{{ n.s "
        "| tojson }}",
        "{% set n = namespace(s=[1], t=[1]) %}{% for i in range(60) %}{% set n.s = [n.s, n.s] %}"
        "{% set n.t = [n.t, n.t] %}{% endfor %}{{ n.s == n.t }}",
        "{% set n = namespace(s=[1]) %}{% for i in range(60) %}{% set n.s = [n.s, n.s] %}{% endfor %}{{ n.s "
        "}}",
        "{{ 'a' * 999999999999 }}", "{{ [1] * 999999999999 }}", "{{ '' * 999999999999 }}",
        "{{ 'a' | indent(999999999) }}", "{{ [1] | tojson(indent=999999999) }}",
        "{% for i in range(99999) %}{{ s | length }}{% endfor %}"}) {
    EXPECT_EQ(ReasonOfRender(source, R"({"s": ")" + std::string(100'000, 'x') + R"("})"), kReasonLimit)
        << source;
  }
}

TEST(JinjaLimitsTest, LinesArePaidForOneByOne) {
  const Text text = Text::Plain(std::string(1'000'000, '\n'));
  Budget enough({.max_steps = 10'000'000});
  const auto lines = SplitLines(text, /*keep_ends=*/true, enough);
  ASSERT_TRUE(lines.ok()) << lines.status();
  EXPECT_EQ(lines->size(), 1'000'000u);
  Budget little({.max_steps = 100});
  EXPECT_EQ(ReasonOf(SplitLines(text, /*keep_ends=*/true, little).status()), kReasonLimit);
  const std::string json = R"({"s": ")" + Repeat("\\n", 400'000) + R"("})";
  EXPECT_EQ(ReasonOfRender("{{ s | indent }}", json), kReasonLimit);
  EXPECT_EQ(ReasonOfRender("{{ s.splitlines() | length }}", json), kReasonLimit);
}

TEST(JinjaLimitsTest, NoStepOfASliceIsTooLarge) {
  for (const std::string step :
       {"9223372036854775807", "-9223372036854775807", "(-9223372036854775807 - 1)"}) {
    const auto text = RenderTemplate("{{ 'abc'[1::" + step + "] }}{{ [7, 8, 9][1::" + step + "] }}");
    ASSERT_TRUE(text.ok()) << text.status();
    EXPECT_EQ(text->bytes(), "b[8]");
  }
}

TEST(JinjaLimitsTest, OutputIsBounded) {
  Limits limits;
  limits.max_output_bytes = 100;
  const auto text = RenderTemplate("{% for i in range(50) %}abc{% endfor %}", "{}", limits);
  EXPECT_EQ(ReasonOf(text.status()), kReasonLimit);
  EXPECT_TRUE(RenderTemplate("{% for i in range(33) %}abc{% endfor %}", "{}", limits).ok());
}

TEST(JinjaLimitsTest, TemplateSizeIsBounded) {
  EXPECT_EQ(ReasonOfRender(std::string(300'000, 'x')), kReasonLimit);
}

TEST(JinjaLimitsTest, SyntaxIsNotNestedWithoutBound) {
  for (const std::string& source :
       {"{{ " + Repeat("(", 50'000) + "1" + Repeat(")", 50'000) + " }}", "{{ " + Repeat("[", 50'000) + " }}",
        "{{ " + Repeat("not ", 50'000) + "1 }}", "{{ " + Repeat("-", 50'000) + "1 }}",
        "{{ 1" + Repeat("+1", 50'000) + " }}", "{{ x" + Repeat(".a", 50'000) + " }}",
        "{{ x" + Repeat("|upper", 30'000) + " }}", "{{ x" + Repeat("()", 50'000) + " }}",
        "{{ 1" + Repeat(" if 1 else 1", 15'000) + " }}", "{{ 1" + Repeat(" and 1", 30'000) + " }}",
        Repeat("{% if 1 %}", 20'000), Repeat("{% for a in b %}", 15'000),
        "{% set " + Repeat("(", 50'000) + "a" + Repeat(")", 50'000) + " = 1 %}",
        "{{ " + Repeat("{1:", 50'000) + " }}", "{{ x" + Repeat("[0", 50'000) + " }}",
        "{{ x" + Repeat(" is eq not_", 20'000) + " }}"}) {
    const absl::Status status = Template::Compile(source).status();
    EXPECT_FALSE(status.ok()) << source.substr(0, 40);
  }
  EXPECT_TRUE(RenderTemplate("{{ 1" + Repeat(" + 1", 150) + " }}").ok());
  EXPECT_TRUE(RenderTemplate("{{ 1" + Repeat(" ~ 1", 5'000) + " }}").ok());
  EXPECT_TRUE(RenderTemplate("{% if 0 %}" + Repeat("{% elif 0 %}", 5'000) + "{% endif %}").ok());
}

TEST(JinjaLimitsTest, MacrosDoNotRecurseWithoutBound) {
  EXPECT_EQ(ReasonOfRender("{% macro m(n) %}{{ n }}{{ m(n + 1) }}{% endmacro %}{{ m(0) }}"), kReasonLimit);
  EXPECT_EQ(
      ReasonOfRender("{% macro a() %}{{ b() }}{% endmacro %}{% macro b() %}{{ a() }}{% endmacro %}{{ a() }}"),
      kReasonLimit);
  EXPECT_TRUE(
      RenderTemplate("{% macro m(n) %}{% if n %}{{ m(n - 1) }}{% endif %}{% endmacro %}{{ m(60) }}").ok());
}

TEST(JinjaLimitsTest, ValuesAreNotNestedWithoutBound) {
  EXPECT_EQ(ReasonOfRender(
                "{% set n = namespace(l=[]) %}{% for i in range(90000) %}{% set n.l = [n.l] %}{% endfor %}"),
            kReasonLimit);
  EXPECT_EQ(
      ReasonOfRender(
          "{% set n = namespace(l={}) %}{% for i in range(90000) %}{% set n.l = {'a': n.l} %}{% endfor %}"),
      kReasonLimit);
  // Namespaces in namespaces are not values in values, but they too must be released without recursion.
  EXPECT_TRUE(RenderTemplate("{% set n = namespace(p=none) %}{% for i in range(20000) %}"
                             "{% set n.p = namespace(p=n.p) %}{% endfor %}")
                  .ok());
}

TEST(JinjaJsonTest, IsNotNestedWithoutBound) {
  EXPECT_FALSE(FromJson(std::string(100'000, '[')).ok());
  EXPECT_FALSE(FromJson(Repeat("{\"a\":", 100'000)).ok());
  EXPECT_FALSE(FromJson(Repeat("[", 65) + Repeat("]", 65)).ok());
  EXPECT_TRUE(FromJson(Repeat("[", 64) + Repeat("]", 64)).ok());
}

TEST(JinjaJsonTest, WhatIsNoJsonIsRefused) {
  for (const char* json :
       {"", "{", "[1,]", "nul", "\"a", "{\"a\" 1}", "[1] 2", "NaN", "1e999", "\"\xFF\"", "'a'", "\"\\ud800\"",
        "9223372036854775808", "-9223372036854775809", "[123456789012345678901]"}) {
    EXPECT_FALSE(FromJson(json).ok()) << json;
  }
  EXPECT_TRUE(FromJson("[9223372036854775807, -9223372036854775808, 1.5e3, \"\\ud83d\\ude00\"]").ok());
}

TEST(JinjaTemplateTest, WithoutAClockThereIsNoStrftimeNow) {
  const auto compiled = Template::Compile(
      "{{ strftime_now is defined }}{% if strftime_now %}{{ strftime_now('') }}{% endif %}");
  ASSERT_TRUE(compiled.ok()) << compiled.status();
  const auto text = (*compiled)->Render({});
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_EQ(text->bytes(), "False");
}

}  // namespace
}  // namespace qanat::text::jinja
