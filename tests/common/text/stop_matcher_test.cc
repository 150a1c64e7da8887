#include "common/text/stop_matcher.h"

#include <algorithm>
#include <random>

#include "gtest/gtest.h"

namespace qanat::text {
namespace {

using Result = StopMatcher::Result;

// What a matcher should have released once `text` has gone in, found by search over all of it.
struct Twin {
  std::string released;
  std::optional<int> stop;
};

bool EndsWith(std::string_view text, std::string_view end) { return text.ends_with(end); }

// Stops that end within the first `early` bytes do not count.
Twin Search(const std::vector<std::string>& stops, bool include_stop, std::string_view text, size_t early) {
  for (size_t end = early + 1; end <= text.size(); ++end) {
    Twin twin;
    for (size_t i = 0; i < stops.size(); ++i) {
      if (!EndsWith(text.substr(0, end), stops[i])) continue;
      if (!twin.stop || stops[i].size() > stops[static_cast<size_t>(*twin.stop)].size())
        twin.stop = static_cast<int>(i);
    }
    if (!twin.stop) continue;
    twin.released = text.substr(0, include_stop ? end : end - stops[static_cast<size_t>(*twin.stop)].size());
    return twin;
  }
  size_t keep = 0;
  for (const std::string& stop : stops) {
    for (size_t n = 1; n < stop.size(); ++n) {
      if (EndsWith(text, stop.substr(0, n))) keep = std::max(keep, n);
    }
  }
  return {std::string(text.substr(0, text.size() - keep)), std::nullopt};
}

TEST(StopMatcherTest, WithoutStopsEverythingPassesAtOnce) {
  StopMatcher matcher({});
  EXPECT_EQ(matcher.Feed("any text"), (Result{"any text", std::nullopt}));
  EXPECT_EQ(matcher.Flush(), "");
}

TEST(StopMatcherTest, StopInsideAPieceEndsTheAnswerBeforeIt) {
  StopMatcher matcher({"DE"});
  EXPECT_EQ(matcher.Feed("ABC"), (Result{"ABC", std::nullopt}));
  EXPECT_EQ(matcher.Feed("xDEF"), (Result{"x", 0}));
  EXPECT_EQ(matcher.Feed("G"), (Result{"", 0}));
  EXPECT_EQ(matcher.Flush(), "");
  EXPECT_EQ(matcher.matched(), 0);
}

TEST(StopMatcherTest, IncludedStopIsReleasedAndNothingBehindIt) {
  StopMatcher matcher({"DE"}, /*include_stop=*/true);
  EXPECT_EQ(matcher.Feed("ABCD"), (Result{"ABC", std::nullopt}));
  EXPECT_EQ(matcher.Feed("EFG"), (Result{"DE", 0}));
}

TEST(StopMatcherTest, PossibleBeginningIsHeldAndReleasedWhenItFails) {
  StopMatcher matcher({"DEFGHIJ"});
  EXPECT_EQ(matcher.Feed("ABCDEF"), (Result{"ABC", std::nullopt}));
  EXPECT_EQ(matcher.held_bytes(), 3);
  EXPECT_EQ(matcher.Feed("GHI"), (Result{"", std::nullopt}));
  EXPECT_EQ(matcher.Feed("D"), (Result{"DEFGHI", std::nullopt}));
  EXPECT_EQ(matcher.held_bytes(), 1);
  EXPECT_EQ(matcher.Flush(), "D");
}

TEST(StopMatcherTest, MatchThatCompletesFirstWins) {
  StopMatcher matcher({"abcd", "bc"});
  EXPECT_EQ(matcher.Feed("abcd"), (Result{"a", 1}));
}

TEST(StopMatcherTest, OfStopsThatEndTogetherTheLongestWins) {
  StopMatcher matcher({"c", "bc", "abc", "abc"});
  EXPECT_EQ(matcher.Feed("xab"), (Result{"x", std::nullopt}));
  EXPECT_EQ(matcher.Feed("c"), (Result{"", 2}));
}

TEST(StopMatcherTest, OverlappingBeginningsAreNotLost) {
  StopMatcher matcher({"aab"});
  EXPECT_EQ(matcher.Feed("aaaa"), (Result{"aa", std::nullopt}));
  EXPECT_EQ(matcher.Feed("b"), (Result{"", 0}));
}

TEST(StopMatcherTest, AMatchThatComesTooEarlyIsTextAndMayBeginALaterOne) {
  StopMatcher matcher({"aba"});
  EXPECT_EQ(matcher.Feed("xaba", /*may_end=*/false), (Result{"xab", std::nullopt}));
  EXPECT_EQ(matcher.Feed("ba"), (Result{"", 0}));
}

TEST(StopMatcherTest, CharactersStayWhole) {
  // Both begin with F0 9F: the bytes of the first are a possible beginning of the stop, but not its end.
  StopMatcher matcher({"\xF0\x9F\x94\xA5"});
  EXPECT_EQ(matcher.Feed("\xF0\x9F\x8C\x8A"), (Result{"\xF0\x9F\x8C\x8A", std::nullopt}));
  EXPECT_EQ(matcher.Feed("ok \xF0\x9F\x94\xA5!"), (Result{"ok ", 0}));
}

TEST(StopMatcherTest, RandomTextsInRandomPiecesAgreeWithSearch) {
  std::mt19937 random(11);
  for (int round = 0; round < 20000; ++round) {
    const auto random_text = [&](size_t least, size_t most) {
      std::string text(least + random() % (most - least + 1), '\0');
      for (char& c : text) c = static_cast<char>('a' + random() % 3);
      return text;
    };
    std::vector<std::string> stops(random() % 5);
    for (std::string& stop : stops) stop = random_text(1, 7);
    const bool include_stop = random() % 2 == 0;
    StopMatcher matcher(stops, include_stop);
    const size_t early = random() % 3 == 0 ? random() % 20 : 0;
    size_t early_bytes = 0;  // fed while the answer could not end
    std::string fed, released;
    while (fed.size() < 30) {
      const std::string piece = random_text(0, 6);
      fed += piece;
      const bool may_end = fed.size() >= early;
      if (!may_end) early_bytes = fed.size();
      const Result result = matcher.Feed(piece, may_end);
      released += result.text;
      const Twin twin = Search(stops, include_stop, fed, early_bytes);
      ASSERT_EQ(released, twin.released) << fed;
      ASSERT_EQ(result.stop, twin.stop) << fed;
    }
    released += matcher.Flush();
    if (!matcher.matched()) {
      ASSERT_EQ(released, fed);
    }
  }
}

}  // namespace
}  // namespace qanat::text
