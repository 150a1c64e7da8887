// The interpreter against jinja2: jinja_cases.json holds what make_jinja_cases.py got from it.
#include <fstream>

#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/common/text/jinja_render.h"

namespace qanat::text::jinja {
namespace {

using Json = nlohmann::ordered_json;

TEST(JinjaCasesTest, EveryCaseIsAsJinja2RendersIt) {
  std::ifstream file(std::string(QANAT_SOURCE_DIR) + "/tests/common/text/jinja_cases.json");
  ASSERT_TRUE(file.good());
  const Json json = Json::parse(file);
  int failing = 0;
  for (const Json& c : json.at("cases")) {
    const auto text = RenderTemplate(c.at("source").get<std::string>(),
                                     json.at("data").at(c.at("data").get<std::string>()).dump());
    const std::string name = c.at("name");
    if (c.contains("text")) {
      ASSERT_TRUE(text.ok()) << name << ": " << text.status();
      EXPECT_EQ(text->bytes(), c.at("text").get<std::string>()) << name;
    } else {
      EXPECT_FALSE(text.ok()) << name << " gave " << text->bytes();
      ++failing;
    }
  }
  EXPECT_GE(json.at("cases").size(), 700u);
  EXPECT_GE(failing, 100);
}

}  // namespace
}  // namespace qanat::text::jinja
