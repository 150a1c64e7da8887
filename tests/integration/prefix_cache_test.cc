// What was computed once is found again.
#include <string>

#include "gtest/gtest.h"
#include "tests/integration/cluster.h"

namespace qanat::integration {
namespace {

TEST(PrefixCacheIntegrationTest, ARepeatFindsItsFullBlocksButTheLastToken) {
  Cluster cluster(1);
  for (const int tokens : {1, 15, 16, 17, 32, 33, 48, 100}) {
    const v1::GenerateRequest request = PromptOf(tokens, tokens, 2);
    const Answer cold = cluster.client().Generate(request);
    ASSERT_TRUE(cold.status.ok()) << cold.status;
    EXPECT_EQ(cold.usage.cached_tokens(), 0) << tokens << " tokens";
    EXPECT_EQ(cold.usage.prompt_tokens(), tokens);
    const Answer warm = cluster.client().Generate(request);
    EXPECT_EQ(warm.usage.cached_tokens(), (tokens - 1) / 16 * 16) << tokens << " tokens";
    EXPECT_EQ(warm.token_ids, cold.token_ids) << tokens << " tokens";
    EXPECT_EQ(warm.text, cold.text) << tokens << " tokens";
  }
}

TEST(PrefixCacheIntegrationTest, AnotherSaltFindsNothing) {
  Cluster cluster(1);
  v1::GenerateRequest request = PromptOf(40, 1, 2);
  request.set_cache_salt("mine");
  ASSERT_TRUE(cluster.client().Generate(request).status.ok());
  EXPECT_EQ(cluster.client().Generate(request).usage.cached_tokens(), 32);
  request.set_cache_salt("yours");
  EXPECT_EQ(cluster.client().Generate(request).usage.cached_tokens(), 0);
}

TEST(PrefixCacheIntegrationTest, WithoutACacheNothingIsFoundAndTheAnswerIsTheSame) {
  const v1::GenerateRequest request = PromptOf(40, 2, 4);
  Cluster with(1);
  Cluster without(1, {"--prefix-cache", "off"});
  const Answer expected = with.client().Generate(request);
  for (int i = 0; i < 2; ++i) {
    const Answer answer = without.client().Generate(request);
    ASSERT_TRUE(answer.status.ok()) << answer.status;
    EXPECT_EQ(answer.usage.cached_tokens(), 0);
    EXPECT_EQ(answer.token_ids, expected.token_ids);
  }
}

}  // namespace
}  // namespace qanat::integration
