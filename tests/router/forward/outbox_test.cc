#include "router/forward/outbox.h"

#include <deque>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace qanat::router {
namespace {

// `tokens` ids from `first` on, spelt as letters.
v1::GenerateResponse News(int index, int first, int tokens) {
  v1::GenerateResponse response;
  response.set_index(index);
  response.set_first_token(first);
  for (int i = first; i < first + tokens; ++i) {
    response.add_token_ids(i);
    response.mutable_text()->push_back(static_cast<char>('a' + i % 26));
  }
  return response;
}

v1::GenerateResponse Last(v1::GenerateResponse response) {
  response.mutable_finish()->set_reason(v1::FINISH_REASON_STOP);
  return response;
}

TEST(OutboxTest, GivesOutInOrder) {
  Outbox outbox;
  outbox.Push(News(0, 0, 1));
  EXPECT_EQ(outbox.Pop().text(), "a");
  outbox.Push(News(0, 1, 1));
  EXPECT_EQ(outbox.Pop().text(), "b");
  EXPECT_TRUE(outbox.empty());
}

TEST(OutboxTest, JoinsWhatWaits) {
  Outbox outbox;
  outbox.Push(News(0, 3, 1));
  outbox.Push(News(0, 4, 2));
  v1::GenerateResponse last = Last(News(0, 6, 1));
  last.mutable_usage()->set_completion_tokens(4);
  last.mutable_timings()->set_preemptions(1);
  last.set_seed(9);
  outbox.Push(last);
  const v1::GenerateResponse joined = outbox.Pop();
  EXPECT_TRUE(outbox.empty());
  EXPECT_EQ(joined.first_token(), 3);
  EXPECT_EQ(joined.text(), "defg");
  EXPECT_EQ(joined.token_ids_size(), 4);
  EXPECT_EQ(joined.finish().reason(), v1::FINISH_REASON_STOP);
  EXPECT_EQ(joined.usage().completion_tokens(), 4);
  EXPECT_EQ(joined.timings().preemptions(), 1);
  EXPECT_EQ(joined.seed(), 9u);
}

TEST(OutboxTest, JoinsLogProbabilities) {
  Outbox outbox;
  v1::GenerateResponse first = News(0, 0, 1);
  first.add_prompt_logprobs()->set_token_id(1);
  first.add_logprobs()->set_token_id(2);
  v1::GenerateResponse second = News(0, 1, 1);
  second.add_prompt_logprobs()->set_token_id(3);
  second.add_logprobs()->set_token_id(4);
  outbox.Push(first);
  outbox.Push(second);
  const v1::GenerateResponse joined = outbox.Pop();
  ASSERT_EQ(joined.prompt_logprobs_size(), 2);
  EXPECT_EQ(joined.prompt_logprobs(1).token_id(), 3);
  ASSERT_EQ(joined.logprobs_size(), 2);
  EXPECT_EQ(joined.logprobs(1).token_id(), 4);
}

TEST(OutboxTest, AReaderWhoStoppedCostsTheBytesOfItsAnswer) {
  Outbox outbox;
  size_t bytes = 0;
  for (int i = 0; i < 100000; ++i) {
    outbox.Push(News(0, i, 1));
    bytes += 1;
  }
  EXPECT_LE(outbox.size(), 20u);
  std::string text;
  while (!outbox.empty()) {
    const v1::GenerateResponse response = outbox.Pop();
    EXPECT_LE(response.ByteSizeLong(), Outbox::kFullBytes);
    text += response.text();
  }
  EXPECT_EQ(text.size(), bytes);
}

TEST(OutboxTest, TheLastResponseOfTheCallStaysBehindOtherChoices) {
  Outbox outbox;
  outbox.Push(News(0, 0, 1));
  outbox.Push(Last(News(1, 0, 1)));
  v1::GenerateResponse last = Last(News(0, 1, 1));
  last.mutable_usage();
  outbox.Push(last);
  std::vector<v1::GenerateResponse> out;
  while (!outbox.empty()) out.push_back(outbox.Pop());
  EXPECT_TRUE(out.back().has_usage());
  EXPECT_EQ(out.back().index(), 0);
}

// A naive twin keeps what each choice said; the outbox may cut it anew but not change it.
TEST(OutboxTest, ConcatenatesToWhatWentIn) {
  std::mt19937 random(17);
  for (int round = 0; round < 300; ++round) {
    constexpr int kChoices = 3;
    Outbox outbox;
    std::map<int, std::string> in, out;
    std::vector<int> next_in(kChoices, 0), next_out(kChoices, 0);
    std::vector<bool> done(kChoices, false), finished(kChoices, false);
    const auto take = [&] {
      const v1::GenerateResponse response = outbox.Pop();
      const int index = response.index();
      ASSERT_FALSE(finished[index]) << "something came after finish";
      ASSERT_EQ(response.first_token(), next_out[index]) << "a gap or a repeat";
      next_out[index] += response.token_ids_size();
      out[index] += response.text();
      finished[index] = response.has_finish();
      ASSERT_TRUE(outbox.empty() || !response.has_usage()) << "usage was not last";
    };
    int left = kChoices;
    while (left > 0) {
      const int index = static_cast<int>(random() % kChoices);
      if (!done[index]) {
        const int tokens = static_cast<int>(random() % 4);
        v1::GenerateResponse response = News(index, next_in[index], tokens);
        next_in[index] += tokens;
        in[index] += response.text();
        if (random() % 8 == 0) {
          response = Last(std::move(response));
          done[index] = true;
          if (--left == 0) response.mutable_usage();
        }
        outbox.Push(std::move(response));
      }
      if (random() % 3 == 0 && !outbox.empty()) take();
    }
    while (!outbox.empty()) take();
    ASSERT_EQ(in, out);
    ASSERT_EQ(next_in, next_out);
    ASSERT_EQ(finished, std::vector<bool>(kChoices, true));
  }
}

}  // namespace
}  // namespace qanat::router
