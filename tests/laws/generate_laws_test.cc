// The laws of Generate (docs/service.md), each over drawn requests that are served side by side.
#include <algorithm>
#include <chrono>
#include <future>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "common/base/error.h"
#include "common/text/utf8.h"
#include "gtest/gtest.h"
#include "tests/laws/law_rig.h"

namespace qanat::service {
namespace {

constexpr int32_t kCases = 1500;

int32_t ChoicesOf(const v1::GenerateRequest& request) { return std::max(1, request.sampling().n()); }

bool IsSuccess(v1::FinishReason reason) {
  return reason == v1::FINISH_REASON_STOP || reason == v1::FINISH_REASON_LENGTH;
}

// The request with the seed that its answer names.
v1::GenerateRequest Seeded(const LawCall& call) {
  v1::GenerateRequest request = call.request;
  request.mutable_sampling()->set_seed(call.heard.last().seed());
  return request;
}

std::vector<const v1::GenerateResponse*> OfChoice(const Heard& heard, int32_t choice) {
  std::vector<const v1::GenerateResponse*> out;
  for (const auto& message : heard.messages) {
    if (message.index() == choice) out.push_back(&message);
  }
  return out;
}

std::vector<TokenId> IdsOf(const Heard& heard, int32_t choice) {
  std::vector<TokenId> ids;
  for (const auto* message : OfChoice(heard, choice)) {
    ids.insert(ids.end(), message->token_ids().begin(), message->token_ids().end());
  }
  return ids;
}

class GenerateLawsTest : public ::testing::Test {
 protected:
  // Also what every stream must hold to, disturbed or not.
  std::vector<std::unique_ptr<LawCall>> Serve(uint64_t seed, bool disturb, int32_t count = kCases) {
    Random random(seed);
    auto calls = rig_.Serve(random, count, disturb);
    for (const auto& call : calls) ExpectLaws(call->heard);
    EXPECT_TRUE(rig_.IsIdle());
    return calls;
  }

  LawRig rig_;
};

TEST_F(GenerateLawsTest, ConcatenatedTextIsTheWholeAnswerAndPositionsHaveNoGapOrRepeat) {
  for (const auto& call : Serve(1, /*disturb=*/false)) {
    ASSERT_TRUE(call->heard.status.ok()) << call->heard.status;
    const v1::GenerateRequest request = Seeded(*call);
    for (int32_t choice = 0; choice < ChoicesOf(request); ++choice) {
      const ExpectedChoice expected = rig_.Expect(request, static_cast<uint32_t>(choice));
      ASSERT_EQ(call->heard.text(choice), expected.text) << request.ShortDebugString();
      int32_t next = 0;
      for (const auto* message : OfChoice(call->heard, choice)) {
        EXPECT_TRUE(text::IsValidUtf8(message->text()));
        if (!request.output().token_ids()) continue;
        EXPECT_EQ(message->first_token(), next);
        next += message->token_ids_size();
      }
      if (request.output().token_ids()) {
        EXPECT_EQ(IdsOf(call->heard, choice), expected.ids);
      }
    }
  }
}

TEST_F(GenerateLawsTest, IsOkIfAndOnlyIfEveryChoiceFinishedWellAndElseAFinishComesBeforeTheStatus) {
  std::map<absl::StatusCode, int> seen;
  for (const auto& call : Serve(2, /*disturb=*/true)) {
    const Heard& heard = call->heard;
    ++seen[heard.status.code()];
    std::map<int32_t, v1::FinishReason> finishes;
    for (const auto& message : heard.messages) {
      if (!message.has_finish()) continue;
      EXPECT_TRUE(finishes.emplace(message.index(), message.finish().reason()).second) << "a second finish";
    }
    if (!call->disturbed) {
      EXPECT_TRUE(heard.status.ok()) << heard.status;
    }
    if (heard.messages.empty()) {
      EXPECT_FALSE(heard.status.ok()) << "refused, so nothing was said";
      continue;
    }
    EXPECT_EQ(static_cast<int32_t>(finishes.size()), ChoicesOf(call->request)) << "each choice says its end";
    EXPECT_EQ(heard.status.ok(), std::all_of(finishes.begin(), finishes.end(),
                                             [](const auto& finish) { return IsSuccess(finish.second); }));
    const std::set<v1::FinishReason> reasons = [&] {
      std::set<v1::FinishReason> all;
      for (const auto& [choice, reason] : finishes) all.insert(reason);
      return all;
    }();
    switch (heard.status.code()) {
      case absl::StatusCode::kCancelled:
        EXPECT_EQ(reasons.count(v1::FINISH_REASON_CANCELLED), 1u);
        break;
      case absl::StatusCode::kDeadlineExceeded:
        EXPECT_EQ(reasons.count(v1::FINISH_REASON_DEADLINE), 1u);
        break;
      case absl::StatusCode::kInternal:
        EXPECT_EQ(reasons.count(v1::FINISH_REASON_ERROR), 1u);
        break;
      default:
        EXPECT_TRUE(heard.status.ok()) << heard.status;
    }
  }
  for (const auto code : {absl::StatusCode::kOk, absl::StatusCode::kCancelled,
                          absl::StatusCode::kDeadlineExceeded, absl::StatusCode::kInternal}) {
    EXPECT_GT(seen[code], 20) << "the cases show too little of " << code;
  }
}

// What was said before the end is what would have been said without it.
TEST_F(GenerateLawsTest, ADisturbedAnswerIsABeginningOfTheUndisturbedOne) {
  int cut = 0;
  for (const auto& call : Serve(3, /*disturb=*/true)) {
    if (call->heard.messages.empty()) continue;
    const v1::GenerateRequest request = Seeded(*call);
    int32_t completion_tokens = 0;
    for (int32_t choice = 0; choice < ChoicesOf(request); ++choice) {
      const ExpectedChoice expected = rig_.Expect(request, static_cast<uint32_t>(choice));
      const std::vector<TokenId> ids = IdsOf(call->heard, choice);
      completion_tokens += static_cast<int32_t>(ids.size());
      ASSERT_LE(ids.size(), expected.ids.size());
      EXPECT_TRUE(std::equal(ids.begin(), ids.end(), expected.ids.begin()));
      std::string said = call->heard.text(choice);
      if (IsSuccess(call->heard.finish(choice).reason())) {
        EXPECT_EQ(said, expected.text) << "beside a choice that failed, too";
        continue;
      }
      ++cut;
      // What ends inside a character says so.
      if (said.ends_with(text::kReplacement) && !expected.text.starts_with(said)) {
        said.resize(said.size() - std::string_view(text::kReplacement).size());
      }
      // An end that is not the answer's own releases what may have become a stop.
      if (request.stopping().stop().empty()) {
        EXPECT_TRUE(expected.text.starts_with(said)) << request.ShortDebugString();
      }
    }
    if (request.output().token_ids()) {
      EXPECT_EQ(completion_tokens, call->heard.last().usage().completion_tokens());
    }
  }
  EXPECT_GT(cut, 50);
}

TEST_F(GenerateLawsTest, UsageTimingsAndSeedComeOnceInTheLastMessage) {
  for (const auto& call : Serve(4, /*disturb=*/false)) {
    const v1::GenerateRequest request = Seeded(*call);
    const auto& messages = call->heard.messages;
    for (size_t i = 0; i < messages.size(); ++i) {
      const bool last = i + 1 == messages.size();
      EXPECT_TRUE(messages[i].has_usage() == last && messages[i].has_timings() == last &&
                  messages[i].has_seed() == last);
      EXPECT_EQ(messages[i].request_id(), request.request_id());
    }
    const v1::Usage& usage = messages.back().usage();
    int32_t tokens = 0;
    for (int32_t choice = 0; choice < ChoicesOf(request); ++choice) {
      tokens += static_cast<int32_t>(rig_.Expect(request, static_cast<uint32_t>(choice)).ids.size());
    }
    EXPECT_EQ(usage.completion_tokens(), tokens);
    EXPECT_EQ(usage.prompt_tokens(), request.token_ids().ids_size());
    EXPECT_EQ(usage.cached_tokens() % 16, 0);
    EXPECT_LT(usage.cached_tokens(), usage.prompt_tokens());
    if (request.bypass_prefix_cache() || request.output().has_prompt_logprobs()) {
      EXPECT_EQ(usage.cached_tokens(), 0) << "such a request reads no cached block";
    }
    if (call->request.sampling().has_seed()) {
      EXPECT_EQ(messages.back().seed(), call->request.sampling().seed());
    }
  }
}

TEST_F(GenerateLawsTest, TheSeedNamedGivesTheAnswerAgain) {
  int drawn = 0;
  for (const auto& call : Serve(5, /*disturb=*/false, 500)) {
    if (call->request.sampling().has_seed()) continue;
    ++drawn;
    v1::GenerateRequest again = Seeded(*call);
    again.mutable_output()->set_delivery(v1::DELIVERY_FINAL_ONLY);
    const Heard heard = rig_.Ask(again);
    for (int32_t choice = 0; choice < ChoicesOf(again); ++choice) {
      EXPECT_EQ(heard.text(choice), call->heard.text(choice));
      EXPECT_EQ(IdsOf(heard, choice), IdsOf(call->heard, choice));
    }
  }
  EXPECT_GT(drawn, 50);
}

TEST_F(GenerateLawsTest, FinalOnlyIsOneMessageAChoice) {
  int num_choices = 0;
  for (const auto& call : Serve(6, /*disturb=*/false)) {
    if (call->request.output().delivery() != v1::DELIVERY_FINAL_ONLY) continue;
    for (int32_t choice = 0; choice < ChoicesOf(call->request); ++choice, ++num_choices) {
      const auto messages = OfChoice(call->heard, choice);
      ASSERT_EQ(messages.size(), 1u);
      EXPECT_TRUE(messages[0]->has_finish());
      EXPECT_EQ(messages[0]->first_token(), 0);
    }
  }
  EXPECT_GT(num_choices, 200);
}

TEST_F(GenerateLawsTest, StopStringsEndTheAnswerAtTheFirstMatchAndNothingBehindItCounts) {
  std::map<v1::Finish::MatchedCase, int> seen;
  for (const auto& call : Serve(7, /*disturb=*/false)) {
    const v1::GenerateRequest request = Seeded(*call);
    for (int32_t choice = 0; choice < ChoicesOf(request); ++choice) {
      const ExpectedChoice expected = rig_.Expect(request, static_cast<uint32_t>(choice));
      const v1::Finish finish = call->heard.finish(choice);
      ++seen[finish.matched_case()];
      EXPECT_EQ(finish.ShortDebugString(), expected.finish.ShortDebugString()) << request.ShortDebugString();
      if (finish.matched_case() != v1::Finish::kStop || request.stopping().min_tokens() > 0) continue;
      const std::string text = call->heard.text(choice);
      if (request.stopping().include_stop()) {
        EXPECT_TRUE(text.ends_with(finish.stop()));
        continue;
      }
      for (const std::string& stop : request.stopping().stop()) {
        EXPECT_EQ(text.find(stop), std::string::npos) << "an earlier match";
      }
    }
  }
  for (const auto matched : {v1::Finish::kStop, v1::Finish::kStopTokenId, v1::Finish::MATCHED_NOT_SET}) {
    EXPECT_GT(seen[matched], 100) << matched;
  }
}

// One entry a token that counts, the scores of what was drawn and not of what the rules made of it; those of
// the prompt first.
TEST_F(GenerateLawsTest, LogprobsAreTheRunnersForEachTokenThatCountsAndThePromptsComeFirst) {
  const auto expect_equal = [&](const v1::TokenLogprob& got, const sampling::ScoredToken& want) {
    EXPECT_EQ(got.token_id(), want.chosen.token);
    EXPECT_EQ(got.logprob(), want.chosen.logprob);
    EXPECT_EQ(got.token(), rig_.tokenizer->Bytes(want.chosen.token));
    ASSERT_EQ(got.alternatives_size(), static_cast<int>(want.likeliest.size()));
    for (int i = 0; i < got.alternatives_size(); ++i) {
      EXPECT_EQ(got.alternatives(i).token_id(), want.likeliest[i].token);
      EXPECT_EQ(got.alternatives(i).logprob(), want.likeliest[i].logprob);
    }
  };
  int scored = 0;
  for (const auto& call : Serve(8, /*disturb=*/false)) {
    const v1::GenerateRequest request = Seeded(*call);
    for (int32_t choice = 0; choice < ChoicesOf(request); ++choice) {
      const ExpectedChoice expected = rig_.Expect(request, static_cast<uint32_t>(choice));
      size_t tokens = 0;
      size_t prompt = 0;
      for (const auto* message : OfChoice(call->heard, choice)) {
        EXPECT_TRUE(message->prompt_logprobs().empty() || message->first_token() == 0);
        for (const auto& entry : message->prompt_logprobs()) {
          ASSERT_LT(prompt, expected.prompt_scores.size());
          expect_equal(entry, expected.prompt_scores[prompt++]);
        }
        for (const auto& entry : message->logprobs()) {
          ASSERT_LT(tokens, expected.scores.size());
          expect_equal(entry, expected.scores[tokens++]);
        }
      }
      EXPECT_EQ(tokens, expected.scores.size());
      EXPECT_EQ(prompt, expected.prompt_scores.size());
      scored += static_cast<int>(tokens + prompt);
    }
  }
  EXPECT_GT(scored, 1000);
}

TEST_F(GenerateLawsTest, CancellingAbortsInAnyStateWithinOneStep) {
  Random random(9);
  std::map<bool, int> complete;
  for (int round = 0; round < kCases; ++round) {
    const auto call = rig_.Start(rig_.Draw(random));
    for (int32_t steps = Pick(random, 30); steps > 0; --steps) {
      rig_.Step();
      if (OneIn(random, 4)) rig_.Read(*call);
      if (OneIn(random, 16) && !call->ended) call->generation->SetReaderPaused(OneIn(random, 2));
    }
    if (!call->ended) call->generation->Abort(engine::EndReason::kCancelled, CallerLeft());
    rig_.Step();
    EXPECT_TRUE(rig_.IsIdle()) << call->request.ShortDebugString();
    rig_.ReadAll(*call);
    ASSERT_TRUE(call->ended);
    ExpectLaws(call->heard);
    ++complete[call->heard.status.ok()];
    EXPECT_TRUE(call->heard.status.ok() || call->heard.status.code() == absl::StatusCode::kCancelled);
  }
  EXPECT_GT(complete[false], 100);
  EXPECT_GT(complete[true], 100);
}

TEST_F(GenerateLawsTest, CancellingBeforeThePromptIsEncodedCostsNoEncoding) {
  std::promise<void> gate;
  ASSERT_TRUE(rig_.text_pool.TryRun([opened = gate.get_future().share()] { opened.wait(); }));
  v1::GenerateRequest request;
  request.set_text("abc");
  const auto call = rig_.Start(request);
  rig_.Read(*call);
  EXPECT_FALSE(call->ended);
  call->generation->Abort(engine::EndReason::kCancelled, CallerLeft());
  gate.set_value();
  while (!call->ended) rig_.Read(*call);
  EXPECT_EQ(call->heard.status.code(), absl::StatusCode::kCancelled);
  EXPECT_TRUE(call->heard.messages.empty());
  EXPECT_FALSE(rig_.Step()) << "nothing reached the engine";
}

TEST_F(GenerateLawsTest, TheDeadlineOfTheCallIsTheRequests) {
  Random random(10);
  std::map<absl::StatusCode, int> seen;
  for (int round = 0; round < 500; ++round) {
    const int32_t timeout_ms = Pick(random, 40) - 2;
    const auto call = rig_.Start(rig_.Draw(random), std::chrono::milliseconds(timeout_ms));
    for (int32_t step = 0; step < timeout_ms; ++step) rig_.Step();  // a millisecond each
    rig_.Step();
    EXPECT_TRUE(rig_.IsIdle());
    rig_.ReadAll(*call);
    ASSERT_TRUE(call->ended);
    ExpectLaws(call->heard);
    ++seen[call->heard.status.code()];
    EXPECT_EQ(ReasonOf(call->heard.status), call->heard.status.ok() ? "" : "DEADLINE");
    if (timeout_ms <= 0) {
      EXPECT_TRUE(call->heard.messages.empty()) << "no compute at all";
      EXPECT_EQ(call->heard.status.code(), absl::StatusCode::kDeadlineExceeded);
    }
  }
  EXPECT_EQ(seen.size(), 2u);
  EXPECT_GT(seen[absl::StatusCode::kOk], 50);
  EXPECT_GT(seen[absl::StatusCode::kDeadlineExceeded], 50);
}

// A message is split before it passes 1 MiB: the prompt's scores first, the finish in the last.
TEST(LargeAnswerLawsTest, WhatWouldPassAMebibyteIsSplitInOrder) {
  LawOptions options;
  options.context_length = 6000;
  options.num_blocks = 1200;
  LawRig rig(options);
  Random random(11);
  int split = 0;
  for (int round = 0; round < 6; ++round) {
    v1::GenerateRequest request;
    for (int32_t i = 4000 + Pick(random, 1000); i > 0; --i) {
      request.mutable_token_ids()->add_ids(Pick(random, rig.tokenizer->size()));
    }
    request.mutable_sampling()->set_seed(random());
    request.mutable_sampling()->set_n(1 + Pick(random, 2));
    request.mutable_stopping()->set_max_tokens(1 + Pick(random, 400));
    request.mutable_stopping()->set_ignore_eos(true);
    request.mutable_output()->set_prompt_logprobs(15 + Pick(random, 6));
    request.mutable_output()->set_logprobs(Pick(random, 21));
    request.mutable_output()->set_delivery(OneIn(random, 3) ? v1::DELIVERY_DELTAS : v1::DELIVERY_FINAL_ONLY);
    const auto call = rig.Start(request);
    // A reader who comes late: as much as may wait, waits.
    for (int i = 0; i < 500; ++i) rig.Step();
    rig.Finish(*call);
    ASSERT_TRUE(call->heard.status.ok()) << call->heard.status;
    ExpectLaws(call->heard);
    for (int32_t choice = 0; choice < request.sampling().n(); ++choice) {
      const auto messages = OfChoice(call->heard, choice);
      split += messages.size() > 1 && request.output().delivery() == v1::DELIVERY_FINAL_ONLY;
      int32_t tokens = 0;
      int32_t prompt = 0;
      for (const auto* message : messages) {
        EXPECT_LE(message->ByteSizeLong(), size_t{1} << 20);
        EXPECT_TRUE(message->prompt_logprobs().empty() || tokens == 0) << "the prompt's scores come first";
        EXPECT_EQ(message->first_token(), tokens);
        EXPECT_EQ(message->has_finish(), message == messages.back());
        tokens += message->logprobs_size();
        prompt += message->prompt_logprobs_size();
      }
      EXPECT_EQ(prompt, choice == 0 ? request.token_ids().ids_size() - 1 : 0);
      EXPECT_EQ(tokens, request.stopping().max_tokens());
      EXPECT_EQ(call->heard.text(choice), rig.Expect(request, static_cast<uint32_t>(choice)).text);
    }
  }
  EXPECT_GT(split, 1);
}

}  // namespace
}  // namespace qanat::service
