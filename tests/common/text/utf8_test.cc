#include "common/text/utf8.h"

#include <cstdint>
#include <random>

#include "gtest/gtest.h"

namespace qanat::text {
namespace {

using Kind = Utf8Unit::Kind;

// Encodes any number below 2^21, also those that are no character.
std::string EncodeRaw(uint32_t code, int bytes) {
  if (bytes == 1) return std::string(1, static_cast<char>(code));
  std::string out(static_cast<size_t>(bytes), '\0');
  for (int i = bytes - 1; i > 0; --i, code >>= 6)
    out[static_cast<size_t>(i)] = static_cast<char>(0x80 | (code & 0x3F));
  constexpr uint8_t kLead[] = {0, 0, 0xC0, 0xE0, 0xF0};
  out[0] = static_cast<char>(kLead[bytes] | code);
  return out;
}

int BytesOf(uint32_t code) { return code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4; }

bool IsCharacter(uint32_t code) { return code <= 0x10FFFF && (code < 0xD800 || code > 0xDFFF); }

TEST(Utf8Test, AcceptsEveryCharacterAndNothingElse) {
  for (uint32_t code = 0; code < 0x200000; ++code) {
    const std::string text = EncodeRaw(code, BytesOf(code));
    ASSERT_EQ(IsValidUtf8(text), IsCharacter(code)) << std::hex << code;
  }
}

TEST(Utf8Test, RefusesOverlongForms) {
  for (uint32_t code = 0; code < 0x10000; ++code) {
    for (int bytes = BytesOf(code) + 1; bytes <= 4; ++bytes) {
      ASSERT_FALSE(IsValidUtf8(EncodeRaw(code, bytes))) << std::hex << code << " in " << bytes;
    }
  }
}

TEST(Utf8Test, KnowsPartialCharacters) {
  const std::string fire = "\xF0\x9F\x94\xA5";
  for (size_t n = 1; n < 4; ++n) {
    const Utf8Unit unit = NextUnit(fire.substr(0, n));
    EXPECT_EQ(unit.kind, Kind::kPartial);
    EXPECT_EQ(unit.length, n);
  }
  EXPECT_EQ(NextUnit(fire).kind, Kind::kCharacter);
  EXPECT_EQ(NextUnit("\xF0\x9F\x94 ").kind, Kind::kBroken);
}

// Unicode 15, section 3.9, tables 3-8 to 3-11.
TEST(Utf8Test, ReplacesMaximalSubparts) {
  const std::string r(kReplacement);
  EXPECT_EQ(ReplaceInvalid("\xC0\xAF\xE0\x80\xBF\xF0\x81\x82\x41"), r + r + r + r + r + r + r + r + "A");
  EXPECT_EQ(ReplaceInvalid("\xED\xA0\x80\xED\xBF\xBF\xED\xAF\x41"), r + r + r + r + r + r + r + r + "A");
  EXPECT_EQ(ReplaceInvalid("\xF4\x91\x92\x93\xFF\x41\x80\xBF\x42"), r + r + r + r + r + "A" + r + r + "B");
  EXPECT_EQ(ReplaceInvalid("\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41"), r + r + r + r + "A");
}

TEST(Utf8Test, OnePartialCharacterAtTheEndIsOneReplacement) {
  const std::string r(kReplacement);
  EXPECT_EQ(ReplaceInvalid("a\xF0\x9F\x94"), "a" + r);
  EXPECT_EQ(ReplaceInvalid("\xE2"), r);
  std::string out = "x";
  EXPECT_EQ(AppendCharacters("a\xF0\x9F\x94", out), 3u);
  EXPECT_EQ(out, "xa");
}

TEST(Utf8Test, ValidTextIsLeftAlone) {
  std::string text = "plain, \xC3\xA9t\xC3\xA9, \xE6\xB0\xB4, \xF0\x9F\x94\xA5, and ";
  text.push_back('\0');
  EXPECT_EQ(ReplaceInvalid(text), text);
  EXPECT_EQ(ValidPrefix(text + "\xFF tail"), text.size());
  EXPECT_EQ(ReplaceInvalid(""), "");
}

std::vector<std::string> Runs(std::string_view text) {
  std::vector<std::string> runs;
  ForEachRun(
      text, [&](std::string_view valid) { runs.push_back("+" + std::string(valid)); },
      [&](std::string_view broken) { runs.push_back("-" + std::string(broken)); });
  return runs;
}

TEST(Utf8Test, RunsAreWholeCharactersAndSingleBrokenBytes) {
  using Strings = std::vector<std::string>;
  EXPECT_EQ(Runs(""), Strings{});
  EXPECT_EQ(Runs("a\xE6\xB0\xB4"
                 "b"),
            Strings{"+a\xE6\xB0\xB4"
                    "b"});
  EXPECT_EQ(Runs("\xE6\xB0"
                 "ab\xFF"),
            (Strings{"-\xE6", "-\xB0", "+ab", "-\xFF"}));
}

// Whatever the bytes, the result is valid, and is the same when the text comes in two halves.
TEST(Utf8Test, RandomBytesBecomeValidHoweverTheyAreCut) {
  std::mt19937 random(7);
  const std::string alphabet = "ab\x80\xBF\x9F\x90\xC3\xE2\xED\xF0\xF4\xFF";
  for (int round = 0; round < 20000; ++round) {
    std::string text(random() % 12, '\0');
    for (char& c : text) c = alphabet[random() % alphabet.size()];
    const std::string whole = ReplaceInvalid(text);
    ASSERT_TRUE(IsValidUtf8(whole));
    const size_t cut = text.empty() ? 0 : random() % text.size();
    std::string parts;
    const size_t held = AppendCharacters(text.substr(0, cut), parts);
    ASSERT_TRUE(IsValidUtf8(parts));
    ASSERT_EQ(parts + ReplaceInvalid(text.substr(cut - held)), whole);
  }
}

}  // namespace
}  // namespace qanat::text
