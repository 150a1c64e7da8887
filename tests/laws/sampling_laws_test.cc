// The laws of sampling that the service keeps; those of a single draw are tests/worker/sampling's.
#include <algorithm>
#include <map>
#include <string>

#include "common/base/error.h"
#include "common/text/utf8.h"
#include "gtest/gtest.h"
#include "tests/laws/law_rig.h"

namespace qanat::service {
namespace {

class SamplingLawsTest : public ::testing::Test {
 protected:
  LawRig rig_;
  Random random_{20};
};

TEST_F(SamplingLawsTest, ChoiceZeroIsTheAnswerWithoutTheOthers) {
  for (int round = 0; round < 300; ++round) {
    v1::GenerateRequest request = rig_.Draw(random_);
    request.mutable_sampling()->set_seed(random_());
    request.mutable_sampling()->set_n(2 + Pick(random_, 3));
    const Heard several = rig_.Ask(request);
    ASSERT_TRUE(several.status.ok()) << several.status;
    request.mutable_sampling()->clear_n();
    const Heard alone = rig_.Ask(request);
    ASSERT_TRUE(alone.status.ok()) << alone.status;
    EXPECT_EQ(several.text(0), alone.text());
    EXPECT_EQ(several.finish(0).ShortDebugString(), alone.finish(0).ShortDebugString());
  }
}

TEST_F(SamplingLawsTest, AnAnswerDependsOnNobodyBesideIt) {
  std::map<std::string, std::string> alone;
  LawRig quiet({.num_blocks = 256});
  for (const auto& call : rig_.Serve(random_, 500, /*disturb=*/true)) {
    if (!call->heard.status.ok()) continue;
    v1::GenerateRequest request = call->request;
    request.mutable_sampling()->set_seed(call->heard.last().seed());
    const Heard heard = quiet.Ask(request);
    for (int32_t choice = 0; choice < std::max(1, request.sampling().n()); ++choice) {
      EXPECT_EQ(call->heard.text(choice), heard.text(choice)) << request.ShortDebugString();
    }
    EXPECT_EQ(call->heard.last().usage().completion_tokens(), heard.last().usage().completion_tokens());
  }
}

TEST_F(SamplingLawsTest, APromptOfContextLessOneYieldsOneTokenAndALongerOneIsRefusedWithBothNumbers) {
  for (int round = 0; round < 200; ++round) {
    LawOptions options;
    options.context_length = 2 + Pick(random_, 80);
    LawRig rig(options);
    v1::GenerateRequest request;
    request.mutable_token_ids()->mutable_ids()->Resize(options.context_length - 1, 3);
    request.mutable_stopping()->set_ignore_eos(true);
    if (OneIn(random_, 2)) request.mutable_stopping()->set_max_tokens(1 + Pick(random_, 100));
    const Heard one = rig.Ask(request);
    ASSERT_TRUE(one.status.ok()) << one.status;
    EXPECT_EQ(one.last().usage().completion_tokens(), 1);
    EXPECT_EQ(one.last().finish().reason(), v1::FINISH_REASON_LENGTH);
    const int32_t length = options.context_length + Pick(random_, 3);
    request.mutable_token_ids()->mutable_ids()->Resize(length, 3);
    const absl::Status refused = rig.Ask(request).status;
    EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_NE(refused.message().find(std::to_string(length)), absl::string_view::npos);
    EXPECT_NE(refused.message().find(std::to_string(options.context_length)), absl::string_view::npos);
  }
}

TEST_F(SamplingLawsTest, MaxTokensGivesExactlySoManyAndZeroIsRefused) {
  for (int round = 0; round < 200; ++round) {
    v1::GenerateRequest request = rig_.Draw(random_, /*max_prompt=*/20);
    request.mutable_stopping()->Clear();
    request.mutable_stopping()->set_ignore_eos(true);
    const int32_t room = rig_.options.context_length - request.token_ids().ids_size();
    const int32_t tokens = 1 + Pick(random_, room);
    request.mutable_stopping()->set_max_tokens(tokens);
    const Heard heard = rig_.Ask(request);
    ASSERT_TRUE(heard.status.ok()) << heard.status;
    EXPECT_EQ(heard.last().usage().completion_tokens(), tokens * std::max(1, request.sampling().n()));
    EXPECT_EQ(heard.last().finish().reason(), v1::FINISH_REASON_LENGTH);
    request.mutable_stopping()->set_max_tokens(-Pick(random_, 3));
    const absl::Status refused = rig_.Ask(request).status;
    EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(FieldOf(refused), "stopping.max_tokens");
  }
}

// Nothing that may turn into a stop or a character is told; all else is told at once; at the end nothing is
// kept.
TEST_F(SamplingLawsTest, APossibleStopIsHeldBackNoLongerThanItIsOneAndReleasedAtTheEnd) {
  const auto may_grow = [](const std::string& text, const std::string& stop) {
    for (size_t size = std::min(text.size(), stop.size() - 1); size > 0; --size) {
      if (text.ends_with(stop.substr(0, size))) return size;
    }
    return size_t{0};
  };
  int held = 0;
  for (int round = 0; round < 500; ++round) {
    v1::GenerateRequest request = rig_.Draw(random_, /*max_prompt=*/20);
    request.mutable_sampling()->clear_n();
    request.mutable_sampling()->set_seed(random_());
    request.mutable_output()->Clear();
    request.mutable_output()->set_token_ids(true);
    request.mutable_stopping()->clear_stop_token_ids();
    request.mutable_stopping()->clear_min_tokens();
    const auto call = rig_.Start(request);
    std::string raw;
    while (!call->ended) {
      rig_.Step();
      if (!rig_.Read(*call)) continue;
      const v1::GenerateResponse& message = call->heard.last();
      for (const TokenId id : message.token_ids()) raw += std::string(rig_.tokenizer->Bytes(id));
      if (message.has_finish()) break;
      std::string certain;
      text::AppendCharacters(raw, certain);
      const auto& stops = request.stopping().stop();
      const auto found = [&](const std::string& stop) { return certain.find(stop) != std::string::npos; };
      if (std::any_of(stops.begin(), stops.end(), found)) break;  // its end is another test's
      size_t kept = 0;
      for (const std::string& stop : request.stopping().stop())
        kept = std::max(kept, may_grow(certain, stop));
      held += kept > 0;
      EXPECT_EQ(call->heard.text(), certain.substr(0, certain.size() - kept)) << request.ShortDebugString();
    }
    rig_.Finish(*call);
    EXPECT_EQ(call->heard.text(), rig_.Expect(request, 0).text);
  }
  EXPECT_GT(held, 200);
}

// The same in one piece or many, and never an end inside a character.
TEST_F(SamplingLawsTest, BytesThatNeverCompleteACharacterAreOneReplacementAtTheEndStreamingOrNot) {
  int replaced = 0;
  for (int round = 0; round < 500; ++round) {
    v1::GenerateRequest request = rig_.Draw(random_, /*max_prompt=*/20);
    request.mutable_sampling()->set_seed(random_());
    request.mutable_sampling()->clear_n();
    request.mutable_stopping()->Clear();
    request.mutable_stopping()->set_max_tokens(1 + Pick(random_, 6));
    request.mutable_output()->set_token_ids(true);
    request.mutable_output()->set_delivery(v1::DELIVERY_DELTAS);
    const Heard streamed = rig_.Ask(request);
    request.mutable_output()->set_delivery(v1::DELIVERY_FINAL_ONLY);
    const Heard whole = rig_.Ask(request);
    EXPECT_EQ(streamed.text(), whole.text());
    std::string raw, certain;
    for (const TokenId id : whole.ids()) raw += std::string(rig_.tokenizer->Bytes(id));
    const bool partial = text::AppendCharacters(raw, certain) > 0;
    replaced += partial;
    EXPECT_EQ(whole.text(), certain + (partial ? std::string(text::kReplacement) : ""));
  }
  EXPECT_GT(replaced, 50);
}

}  // namespace
}  // namespace qanat::service
