// The table of errors: who is refused with which code, and told what. A row each, over drawn cases.
#include <algorithm>
#include <chrono>
#include <functional>
#include <future>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/api/call_end.h"
#include "common/base/error.h"
#include "gtest/gtest.h"
#include "tests/laws/law_rig.h"

namespace qanat::service {
namespace {

bool Mentions(const absl::Status& status, int64_t number) {
  return status.message().find(std::to_string(number)) != absl::string_view::npos;
}

class ErrorLawsTest : public ::testing::Test {
 protected:
  // Refused before anything is queued: the engine has nothing to do.
  absl::Status Refused(const v1::GenerateRequest& request) {
    const auto call = rig_.Start(request);
    rig_.ReadAll(*call);
    EXPECT_TRUE(call->ended) << "the answer waited for a step: " << request.ShortDebugString();
    EXPECT_TRUE(call->heard.messages.empty());
    EXPECT_FALSE(rig_.Step());
    return call->heard.status;
  }

  LawRig rig_;
  Random random_{40};
};

// Outside [low, high] (or on `low`, where that is open), or no number at all.
float OutOf(Random& random, float low, float high, bool open_below) {
  switch (Pick(random, 6)) {
    case 0:
      return std::numeric_limits<float>::quiet_NaN();
    case 1:
      return (OneIn(random, 2) ? 1 : -1) * std::numeric_limits<float>::infinity();
    case 2:
      return open_below ? low : std::nextafter(low, -1e30f);
    case 3:
      return std::nextafter(high, 1e30f);
    case 4:
      return high + static_cast<float>(1 + Pick(random, 1 << 30));
    default:
      return low - static_cast<float>(1 + Pick(random, 1 << 30));
  }
}

int32_t OutOf(Random& random, int32_t low, int32_t high) {
  const bool below = OneIn(random, 2);
  const int64_t far = OneIn(random, 2) ? 1 : 1 + static_cast<int64_t>(random() % (1u << 30));
  const int64_t value = below ? low - far : high + far;
  return static_cast<int32_t>(
      std::clamp<int64_t>(value, std::numeric_limits<int32_t>::min(), std::numeric_limits<int32_t>::max()));
}

struct Spoil {
  std::string field;
  std::function<void(Random&, v1::GenerateRequest&)> apply;
};

std::vector<Spoil> Spoils(const LawRig& rig) {
  using S = v1::SamplingParams;
  std::vector<Spoil> spoils;
  const auto number = [&](const char* field, void (S::*set)(float), float low, float high, bool open) {
    spoils.push_back({field, [=](Random& random, v1::GenerateRequest& request) {
                        (request.mutable_sampling()->*set)(OutOf(random, low, high, open));
                      }});
  };
  number("sampling.temperature", &S::set_temperature, 0, 2, false);
  number("sampling.top_p", &S::set_top_p, 0, 1, true);
  number("sampling.min_p", &S::set_min_p, 0, 1, false);
  number("sampling.presence_penalty", &S::set_presence_penalty, -2, 2, false);
  number("sampling.frequency_penalty", &S::set_frequency_penalty, -2, 2, false);
  number("sampling.repetition_penalty", &S::set_repetition_penalty, 0, 10, true);
  const auto add = [&](const char* field, std::function<void(Random&, v1::GenerateRequest&)> apply) {
    spoils.push_back({field, std::move(apply)});
  };
  const int32_t vocabulary = rig.tokenizer->size();
  const auto id = [vocabulary](Random& random) { return OutOf(random, 0, vocabulary - 1); };
  add("sampling.top_k",
      [](Random& random, auto& r) { r.mutable_sampling()->set_top_k(-Pick(random, 1 << 30)); });
  add("sampling.n", [](Random& random, auto& r) { r.mutable_sampling()->set_n(OutOf(random, 1, 16)); });
  add("sampling.logit_bias",
      [id](Random& random, auto& r) { (*r.mutable_sampling()->mutable_logit_bias())[id(random)] = 1; });
  add("sampling.logit_bias", [](Random& random, auto& r) {
    (*r.mutable_sampling()->mutable_logit_bias())[3] = OutOf(random, -100.0f, 100.0f, false);
  });
  add("sampling.allowed_token_ids[0]",
      [id](Random& random, auto& r) { r.mutable_sampling()->add_allowed_token_ids(id(random)); });
  add("stopping.max_tokens",
      [](Random& random, auto& r) { r.mutable_stopping()->set_max_tokens(-Pick(random, 1 << 30)); });
  add("stopping.min_tokens", [](Random& random, auto& r) {
    r.mutable_stopping()->set_max_tokens(5);
    r.mutable_stopping()->set_min_tokens(OutOf(random, 0, 5));
  });
  add("stopping.stop", [](Random& random, auto& r) {
    r.mutable_stopping()->clear_stop();
    for (int32_t i = 17 + Pick(random, 100); i > 0; --i) r.mutable_stopping()->add_stop("x");
  });
  add("stopping.stop[0]", [](Random& random, auto& r) {
    r.mutable_stopping()->clear_stop();
    r.mutable_stopping()->add_stop(OneIn(random, 2) ? "" : std::string(257 + Pick(random, 9999), 'x'));
  });
  add("stopping.stop_token_ids[0]", [id](Random& random, auto& r) {
    r.mutable_stopping()->clear_stop_token_ids();
    r.mutable_stopping()->add_stop_token_ids(id(random));
  });
  add("output.logprobs",
      [](Random& random, auto& r) { r.mutable_output()->set_logprobs(OutOf(random, 0, 20)); });
  add("output.prompt_logprobs",
      [](Random& random, auto& r) { r.mutable_output()->set_prompt_logprobs(OutOf(random, 0, 20)); });
  add("output.delivery", [](Random& random, auto& r) {
    r.mutable_output()->set_delivery(static_cast<v1::Delivery>(OutOf(random, 0, 2)));
  });
  add("priority",
      [](Random& random, auto& r) { r.set_priority(static_cast<v1::Priority>(OutOf(random, 0, 3))); });
  add("request_id",
      [](Random& random, auto& r) { r.set_request_id(std::string(257 + Pick(random, 9999), 'x')); });
  add("cache_salt",
      [](Random& random, auto& r) { r.set_cache_salt(std::string(257 + Pick(random, 9999), 'x')); });
  add("token_ids.ids[0]",
      [id](Random& random, auto& r) { r.mutable_token_ids()->mutable_ids()->Set(0, id(random)); });
  add("prompt", [](Random& random, auto& r) {
    OneIn(random, 2) ? r.clear_prompt() : r.mutable_token_ids()->clear_ids();
  });
  return spoils;
}

TEST_F(ErrorLawsTest, AParameterOutOfRangeIsInvalidByName) {
  const std::vector<Spoil> spoils = Spoils(rig_);
  for (int round = 0; round < 3000; ++round) {
    v1::GenerateRequest request = rig_.Draw(random_);
    const Spoil& spoil = spoils[random_() % spoils.size()];
    spoil.apply(random_, request);
    const absl::Status status = Refused(request);
    ASSERT_EQ(status.code(), absl::StatusCode::kInvalidArgument)
        << status << " " << request.ShortDebugString();
    EXPECT_EQ(FieldOf(status), spoil.field) << status;
    EXPECT_NE(ReasonOf(status), "");
  }
}

TEST_F(ErrorLawsTest, APromptThatIsEmptyAfterEncodingIsInvalid) {
  for (int round = 0; round < 100; ++round) {
    v1::GenerateRequest request = rig_.Draw(random_);
    // The vocabulary has no piece for these.
    request.set_text(std::string(static_cast<size_t>(Pick(random_, 30)), 'z'));
    const auto call = rig_.Start(request);
    while (!call->ended) rig_.Read(*call);  // encoded on a pool
    EXPECT_EQ(call->heard.status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(ReasonOf(call->heard.status), "EMPTY_PROMPT");
    EXPECT_FALSE(rig_.Step());
  }
}

TEST_F(ErrorLawsTest, AnUnknownModelIsNotFound) {
  for (int round = 0; round < 300; ++round) {
    v1::GenerateRequest request = rig_.Draw(random_);
    std::string name = "tiny";
    name[random_() % name.size()] = static_cast<char>('A' + Pick(random_, 26));
    request.set_model(OneIn(random_, 2) ? name : "tiny" + std::string(1 + Pick(random_, 50), ' '));
    const absl::Status status = Refused(request);
    EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
    EXPECT_EQ(FieldOf(status), "model");
  }
}

TEST_F(ErrorLawsTest, WhatNoPoolCanHoldIsInvalidWithBothNumbersAndWhatOneCanHoldIsServed) {
  int refused = 0;
  for (int round = 0; round < 400; ++round) {
    LawOptions options;
    options.context_length = 400;
    options.num_blocks = 2 + Pick(random_, 20);
    LawRig rig(options);
    v1::GenerateRequest request;
    const int32_t prompt = 1 + Pick(random_, 300);
    const int32_t tokens = 1 + Pick(random_, 60);
    const int32_t n = 1 + Pick(random_, 3);
    request.mutable_token_ids()->mutable_ids()->Resize(prompt, 3);
    request.mutable_stopping()->set_max_tokens(tokens);
    request.mutable_sampling()->set_n(n);
    const int32_t shared = (prompt - 1) / 16;
    const int32_t blocks = shared + n * ((prompt + tokens + 15) / 16 - shared);
    const Heard heard = rig.Ask(request);
    if (blocks <= options.num_blocks) {
      EXPECT_TRUE(heard.status.ok()) << heard.status;
      continue;
    }
    ++refused;
    EXPECT_EQ(heard.status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(ReasonOf(heard.status), "NEVER_FITS");
    EXPECT_TRUE(Mentions(heard.status, options.num_blocks) || Mentions(heard.status, 16 * options.num_blocks))
        << heard.status;
  }
  EXPECT_GT(refused, 50);
}

TEST_F(ErrorLawsTest, ChatWithoutATemplateIsAFailedPrecondition) {
  for (int round = 0; round < 100; ++round) {
    v1::GenerateRequest request = rig_.Draw(random_);
    for (int32_t i = 1 + Pick(random_, 5); i > 0; --i) {
      request.mutable_chat()->add_messages()->set_role(OneIn(random_, 2) ? "user" : "system");
    }
    const auto call = rig_.Start(request);
    while (!call->ended) rig_.Read(*call);
    EXPECT_EQ(call->heard.status.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_EQ(FieldOf(call->heard.status), "chat");
  }
}

TEST_F(ErrorLawsTest, AConstraintIsNotHonouredAndSaidToBeSo) {
  for (int round = 0; round < 100; ++round) {
    v1::GenerateRequest request = rig_.Draw(random_);
    v1::Constraint& constraint = *request.mutable_sampling()->mutable_constraint();
    switch (Pick(random_, 4)) {
      case 0:
        constraint.set_json_schema("{}");
        break;
      case 1:
        constraint.set_json_object(OneIn(random_, 2));
        break;
      case 2:
        constraint.set_regex("a*");
        break;
      default:
        constraint.mutable_choices()->add_values("a");
    }
    const absl::Status status = Refused(request);
    EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
    EXPECT_EQ(FieldOf(status), "sampling.constraint");
  }
}

// Without a step: the refusal is the answer of the thread that asks. Whoever was accepted is served.
TEST_F(ErrorLawsTest, AFullQueueRefusesAtOnceWithAHintAndHoldsItsBounds) {
  int by_requests = 0;
  int by_tokens = 0;
  for (int round = 0; round < 40; ++round) {
    LawOptions options;
    options.queue_requests = 1 + Pick(random_, 20);
    options.queue_tokens = 64 + Pick(random_, 300);
    LawRig rig(options);
    std::vector<std::unique_ptr<LawCall>> accepted;
    int64_t tokens = 0;
    for (int i = 0; i < 60; ++i) {
      auto call = rig.Start(rig.Draw(random_));
      const int64_t prompt = call->request.token_ids().ids_size();
      const bool full = static_cast<int32_t>(accepted.size()) == options.queue_requests;
      if (!full && tokens + prompt <= options.queue_tokens) {
        tokens += prompt;
        accepted.push_back(std::move(call));
        continue;
      }
      rig.ReadAll(*call);
      ASSERT_TRUE(call->ended);
      const absl::Status& status = call->heard.status;
      EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
      EXPECT_EQ(ReasonOf(status), full ? "QUEUE_FULL" : "TOKENS_FULL");
      ASSERT_TRUE(RetryAfterOf(status).has_value());
      EXPECT_GT(RetryAfterOf(status)->count(), 0);
      ++(full ? by_requests : by_tokens);
    }
    for (const auto& call : accepted) {
      rig.Finish(*call);
      EXPECT_TRUE(call->heard.status.ok()) << call->heard.status;
    }
    EXPECT_TRUE(rig.IsIdle());
  }
  EXPECT_GT(by_requests, 100);
  EXPECT_GT(by_tokens, 100);
}

TEST_F(ErrorLawsTest, AFullTextPoolRefusesWithAHint) {
  std::promise<void> gate;
  const auto opened = gate.get_future().share();
  // The pool's thread first: what it takes out of the queue leaves a place there.
  std::promise<void> busy;
  ASSERT_TRUE(rig_.text_pool.TryRun([&busy, opened] {
    busy.set_value();
    opened.wait();
  }));
  busy.get_future().wait();
  while (rig_.text_pool.TryRun([opened] { opened.wait(); })) {
  }
  for (int round = 0; round < 20; ++round) {
    v1::GenerateRequest request;
    request.set_text("abc");
    const absl::Status status = Refused(request);
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
    EXPECT_TRUE(RetryAfterOf(status).has_value());
  }
  gate.set_value();
}

TEST_F(ErrorLawsTest, ADrainingWorkerIsUnavailableAndFinishesWhatItHas) {
  for (int round = 0; round < 40; ++round) {
    LawRig rig;
    std::vector<std::unique_ptr<LawCall>> before;
    for (int i = 0; i < 5; ++i) before.push_back(rig.Start(rig.Draw(random_)));
    for (int32_t steps = Pick(random_, 10); steps > 0; --steps) rig.Step();
    rig.engine->Drain();
    for (int i = 0; i < 5; ++i) {
      const auto call = rig.Start(rig.Draw(random_));
      rig.ReadAll(*call);
      ASSERT_TRUE(call->ended);
      EXPECT_EQ(call->heard.status.code(), absl::StatusCode::kUnavailable);
      EXPECT_EQ(ReasonOf(call->heard.status), "DRAINING");
    }
    for (const auto& call : before) {
      rig.Finish(*call);
      EXPECT_TRUE(call->heard.status.ok()) << call->heard.status;
    }
  }
}

// What went wrong inside stays inside, whatever it says.
TEST_F(ErrorLawsTest, AnInternalErrorTellsNothing) {
  const std::vector<std::string> secrets = {"/models/secret.gguf", "10.0.0.7:5000", "my prompt", "0x7ffd"};
  for (int round = 0; round < 200; ++round) {
    std::string message;
    for (int32_t i = 1 + Pick(random_, 5); i > 0; --i) {
      absl::StrAppend(&message, secrets[random_() % secrets.size()], " ");
    }
    for (const absl::Status& status :
         {absl::InternalError(message), absl::UnknownError(message), absl::DataLossError(message)}) {
      EXPECT_EQ(PublicError(status).message(), "internal error");
      EXPECT_EQ(api::ToCallEnd(status).message(), "internal error");
    }
  }
  for (int round = 0; round < 200; ++round) {
    const auto call = rig_.Start(rig_.Draw(random_));
    rig_.runner.FailNextRowOf(SequenceId{call->first_sequence});
    rig_.Finish(*call);
    EXPECT_EQ(call->heard.status.code(), absl::StatusCode::kInternal);
    EXPECT_EQ(PublicError(call->heard.status).message(), "internal error");
    EXPECT_TRUE(rig_.IsIdle());
  }
}

}  // namespace
}  // namespace qanat::service
