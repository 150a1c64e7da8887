#include "common/text/jinja/text.h"

#include <random>

#include "common/text/jinja/string_methods.h"
#include "common/text/jinja/unicode.h"
#include "gtest/gtest.h"
#include "tests/common/text/jinja_render.h"

namespace qanat::text::jinja {
namespace {

// The naive twin: a mark for each byte.
struct Twin {
  std::string bytes;
  std::string marks;  // 'c' or 'p'

  void Append(const Twin& other, size_t begin, size_t end) {
    bytes += other.bytes.substr(begin, end - begin);
    marks += other.marks.substr(begin, end - begin);
  }
};

Twin ToTwin(const Text& text) {
  Twin twin{text.bytes(), ""};
  for (size_t i = 0; i < text.size(); ++i) twin.marks.push_back(text.IsControl(i) ? 'c' : 'p');
  return twin;
}

void ExpectSame(const Text& text, const Twin& twin) {
  text.CheckInvariants();
  const Twin made = ToTwin(text);
  EXPECT_EQ(made.bytes, twin.bytes);
  EXPECT_EQ(made.marks, twin.marks);
}

class JinjaTextTest : public testing::Test {
 protected:
  std::pair<Text, Twin> Random(std::string_view alphabet, size_t max_length) {
    std::pair<Text, Twin> made;
    for (size_t n = random_() % (max_length + 1); n > 0; --n) {
      const std::string piece(1, alphabet[random_() % alphabet.size()]);
      const bool control = random_() % 3 == 0;
      made.first.Append(piece, control);
      made.second.Append({piece, control ? "c" : "p"}, 0, 1);
    }
    return made;
  }

  std::mt19937 random_{7};
};

TEST_F(JinjaTextTest, AppendsAndSlicesAsMarkedBytesDo) {
  for (int round = 0; round < 2000; ++round) {
    auto [text, twin] = Random("ab", 30);
    const auto [other, other_twin] = Random("xy", 10);
    size_t begin = random_() % (other.size() + 1);
    size_t end = begin + random_() % (other.size() - begin + 1);
    text.AppendSlice(other, begin, end);
    twin.Append(other_twin, begin, end);
    ExpectSame(text, twin);
    begin = random_() % (text.size() + 1);
    end = begin + random_() % (text.size() - begin + 1);
    Twin slice;
    slice.Append(twin, begin, end);
    ExpectSame(text.Slice(begin, end), slice);
  }
}

TEST_F(JinjaTextTest, ReplacesAsMarkedBytesDo) {
  Limits limits;
  limits.max_steps = 100'000'000;
  Budget budget(limits);
  for (int round = 0; round < 2000; ++round) {
    const auto [text, twin] = Random("ab", 30);
    const auto [old, old_twin] = Random("ab", 3);
    const auto [replacement, replacement_twin] = Random("bz", 3);
    const int64_t count = static_cast<int64_t>(random_() % 5) - 1;
    Twin expected;
    int64_t done = 0;
    for (size_t at = 0; at <= twin.bytes.size();) {
      const bool found =
          (count < 0 || done < count) && twin.bytes.compare(at, old_twin.bytes.size(), old_twin.bytes) == 0;
      if (found) expected.Append(replacement_twin, 0, replacement_twin.bytes.size());
      done += found ? 1 : 0;
      const bool consumed = found && !old_twin.bytes.empty();
      if (!consumed && at < twin.bytes.size()) expected.Append(twin, at, at + 1);
      at += consumed ? old_twin.bytes.size() : 1;
    }
    const auto replaced = Replace(text, old, replacement, count, budget);
    ASSERT_TRUE(replaced.ok());
    ExpectSame(*replaced, expected);
  }
}

TEST_F(JinjaTextTest, StripsAsMarkedBytesDo) {
  for (int round = 0; round < 2000; ++round) {
    const auto [text, twin] = Random(" \nab", 12);
    const size_t begin = std::min(twin.bytes.find_first_not_of(" \n"), twin.bytes.size());
    const size_t last = twin.bytes.find_last_not_of(" \n");
    const size_t end = last == std::string::npos ? begin : last + 1;
    Twin both;
    both.Append(twin, begin, end);
    ExpectSame(Strip(text, nullptr, Side::kBoth), both);
    Twin left;
    left.Append(twin, begin, twin.bytes.size());
    ExpectSame(Strip(text, nullptr, Side::kLeft), left);
  }
}

TEST_F(JinjaTextTest, BrokenUtf8IsWalkedForwardsAndBackwardsAlike) {
  for (int round = 0; round < 20000; ++round) {
    std::string bytes;
    for (size_t n = 1 + random_() % 8; n > 0; --n) {
      constexpr char kBytes[] = {'a', '\x80', '\xBF', '\xC3', '\xE2', '\xED', '\xF0', '\x9F', '\xA0', '\xFF'};
      bytes.push_back(kBytes[random_() % sizeof(kBytes)]);
    }
    std::vector<size_t> starts;
    for (size_t at = 0; at < bytes.size(); at += CodePointAt(bytes, at).length) starts.push_back(at);
    EXPECT_EQ(CountCodePoints(bytes), starts.size());
    // Whole characters are found from both ends; of broken ones it is enough that the walk ends.
    for (size_t end = bytes.size(); end > 0;) {
      const size_t begin = PreviousStart(bytes, end);
      ASSERT_LT(begin, end);
      const CodePoint c = CodePointAt(bytes, begin);
      EXPECT_TRUE(c.value == CodePoint::kNoCharacter || c.length == end - begin);
      end = begin;
    }
  }
}

}  // namespace
}  // namespace qanat::text::jinja
