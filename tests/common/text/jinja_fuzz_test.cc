// Templates cut, joined and altered at random: each compiles and renders, or is refused; nothing else
// happens. QANAT_FUZZ_ROUNDS sets how many, for long runs.
#include <cstdlib>
#include <fstream>
#include <random>

#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/common/text/jinja_render.h"

namespace qanat::text::jinja {
namespace {

class Mutator {
 public:
  Mutator(std::vector<std::string> seeds, uint32_t seed) : seeds_(std::move(seeds)), random_(seed) {}

  std::string Next() {
    std::string text = Any();
    for (size_t n = random_() % 5; n > 0; --n) Mutate(text);
    return text;
  }

 private:
  const std::string& Any() { return seeds_[random_() % seeds_.size()]; }
  size_t Within(const std::string& text) { return random_() % (text.size() + 1); }

  void Mutate(std::string& text) {
    static constexpr const char* kPieces[] = {
        "{{",        "}}",    "{%",   "%}",     "{%-",      "-%}",   "{#",
        "#}",        "'",     "\"",   "\\",     "(",        ")",     "[",
        "]",         "{",     "}",    "|",      ".",        ",",     ":",
        "=",         "~",     "%",    "**",     "not ",     " in ",  " is ",
        "loop.",     "ns.",   "\n",   "\xC3",   "\xF0\x9F", "\0",    "9223372036854775807",
        "-1",        "1e308", " if ", " else ", "endfor",   "endif", "set x = ",
        "for x in ", "raw"};
    const size_t at = Within(text);
    switch (random_() % 5) {
      case 0:
        text.insert(at, kPieces[random_() % std::size(kPieces)]);
        break;
      case 1:
        text.erase(at, random_() % 8);
        break;
      case 2: {
        const std::string& other = Any();
        const size_t begin = Within(other);
        text.insert(at, other.substr(begin, random_() % 40));
        break;
      }
      case 3:
        if (at < text.size()) text[at] = static_cast<char>(random_() % 256);
        break;
      default:
        text = text.substr(0, at) + Any();
        break;
    }
  }

  const std::vector<std::string> seeds_;
  std::mt19937 random_;
};

TEST(JinjaFuzzTest, NoTemplateDoesMoreThanRenderOrFail) {
  std::ifstream file(std::string(QANAT_SOURCE_DIR) + "/tests/common/text/jinja_cases.json");
  ASSERT_TRUE(file.good());
  const auto json = nlohmann::ordered_json::parse(file);
  std::vector<std::string> seeds;
  for (const auto& c : json.at("cases")) seeds.push_back(c.at("source"));
  const std::string data = json.at("data").at("DATA").dump();
  const char* asked = std::getenv("QANAT_FUZZ_ROUNDS");
  const int64_t rounds = asked != nullptr ? std::atoll(asked) : 20'000;
  Limits limits;
  limits.max_steps = 20'000;
  limits.max_output_bytes = 1 << 16;
  Mutator mutator(std::move(seeds), 11);
  int64_t rendered = 0;
  for (int64_t i = 0; i < rounds; ++i) {
    const auto text = RenderTemplate(mutator.Next(), data, limits);
    rendered += text.ok() ? 1 : 0;
    EXPECT_TRUE(text.ok() || !text.status().message().empty());
  }
  // The mutations leave enough whole that the interpreter is reached, not only the parser.
  EXPECT_GT(rendered, rounds / 10);
  EXPECT_LT(rendered, rounds);
}

}  // namespace
}  // namespace qanat::text::jinja
