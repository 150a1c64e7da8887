// What a caller gets never depends on who else is being served.
#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "tests/integration/cluster.h"

namespace qanat::integration {
namespace {

constexpr int kStreams = 64;

// Request `i`: lengths, seeds, sampling and stops of all kinds; every fourth shares its beginning with
// others, and every fourth outgrows what it had when it was admitted.
v1::GenerateRequest MakeRequest(int i) {
  const bool grows = i % 4 == 1;
  const int prompt = 1 + (i * 37) % (grows ? 20 : 90);
  const int output = grows ? 70 + i % 20 : 2 + (i * 5) % 17;
  v1::GenerateRequest request = PromptOf(prompt, i % 4 == 0 ? 1 : 100 + i, output);
  v1::SamplingParams& sampling = *request.mutable_sampling();
  sampling.set_seed(1000 + i);
  sampling.set_temperature(i % 8 == 7 ? 0.0f : 0.6f + 0.1f * static_cast<float>(i % 7));
  if (i % 3 == 0) sampling.set_top_k(40);
  if (i % 5 == 0) sampling.set_top_p(0.9f);
  if (i % 7 == 0) sampling.set_min_p(0.02f);
  if (i % 4 == 2) sampling.set_frequency_penalty(0.5f);
  if (i % 5 == 1) sampling.set_repetition_penalty(1.2f);
  if (i % 9 == 4) (*sampling.mutable_logit_bias())[28] = 2;
  if (i % 7 == 3) request.mutable_stopping()->set_min_tokens(2);
  if (i % 6 == 0) request.mutable_stopping()->add_stop("e");
  request.mutable_stopping()->set_ignore_eos(grows || i % 2 == 0);
  return request;
}

// Each request alone on its worker: the even ones on one, the odd ones on the other.
std::vector<Answer> AnswersAlone() {
  Server workers[] = {StartWorker(), StartWorker()};
  std::vector<Answer> answers(kStreams);
  std::vector<std::thread> callers;
  for (int w = 0; w < 2; ++w) {
    callers.emplace_back([&, w] {
      Client client(workers[w].address);
      for (int i = w; i < kStreams; i += 2) answers[i] = client.Generate(MakeRequest(i));
    });
  }
  for (std::thread& caller : callers) caller.join();
  return answers;
}

std::vector<Answer> AnswersTogether(Client& client) {
  std::vector<Answer> answers(kStreams);
  std::vector<std::thread> callers;
  for (int i = 0; i < kStreams; ++i) {
    callers.emplace_back([&, i] { answers[i] = client.Generate(MakeRequest(i)); });
  }
  for (std::thread& caller : callers) caller.join();
  return answers;
}

class DeterminismTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { alone_ = new std::vector<Answer>(AnswersAlone()); }
  static void TearDownTestSuite() {
    delete alone_;
    alone_ = nullptr;
  }

  void SetUp() override {
    for (const Answer& answer : *alone_) {
      ASSERT_TRUE(answer.status.ok()) << answer.status;
      ASSERT_TRUE(answer.in_order);
      ASSERT_FALSE(answer.token_ids.empty());
    }
  }

  static void ExpectSameAsAlone(const std::vector<Answer>& answers) {
    for (int i = 0; i < kStreams; ++i) {
      const Answer& alone = (*alone_)[i];
      ASSERT_TRUE(answers[i].status.ok()) << "request " << i << ": " << answers[i].status;
      EXPECT_TRUE(answers[i].in_order) << "request " << i;
      EXPECT_EQ(answers[i].text, alone.text) << "request " << i;
      EXPECT_EQ(answers[i].token_ids, alone.token_ids) << "request " << i;
      EXPECT_EQ(answers[i].finish.SerializeAsString(), alone.finish.SerializeAsString()) << "request " << i;
      EXPECT_EQ(answers[i].usage.completion_tokens(), alone.usage.completion_tokens()) << "request " << i;
      EXPECT_EQ(answers[i].seed, 1000u + i);
    }
  }

  static void ExpectSameUnder(const Flags& flags) {
    Cluster cluster(2, flags);
    ExpectSameAsAlone(AnswersTogether(cluster.client()));
  }

  static std::vector<Answer>* alone_;
};

std::vector<Answer>* DeterminismTest::alone_ = nullptr;

TEST_F(DeterminismTest, SixtyFourStreamsThroughTwoWorkersAreAsAlone) {
  Cluster cluster(2);
  ExpectSameAsAlone(AnswersTogether(cluster.client()));
  // Both had their share.
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_GE(cluster.RouterMetrics().Sum("qanat_router_dispatches_total", cluster.worker(i).address),
              0.4 * kStreams);
  }
  // With warm caches, too.
  ExpectSameAsAlone(AnswersTogether(cluster.client()));
}

TEST_F(DeterminismTest, ChunksOfOneTokenChangeNothing) { ExpectSameUnder({"--chunk-tokens", "1"}); }

TEST_F(DeterminismTest, ChunksOfSevenTokensChangeNothing) { ExpectSameUnder({"--chunk-tokens", "7"}); }

TEST_F(DeterminismTest, ChunksOfSixtyFourTokensChangeNothing) { ExpectSameUnder({"--chunk-tokens", "64"}); }

TEST_F(DeterminismTest, PreemptionChangesNothing) {
  Cluster cluster(2, {"--kv-blocks", "40"});
  ExpectSameAsAlone(AnswersTogether(cluster.client()));
  double preemptions = 0;
  for (size_t i = 0; i < 2; ++i)
    preemptions += cluster.WorkerMetrics(i).Sum("qanat_worker_preemptions_total");
  EXPECT_GT(preemptions, 0) << "the pool was large enough: nothing was proved";
}

}  // namespace
}  // namespace qanat::integration
