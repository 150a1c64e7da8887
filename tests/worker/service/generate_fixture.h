// A worker over a scripted model, and one caller's calls.
#pragma once

#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tests/worker/service/scripted_runner.h"
#include "tests/worker/service/service_fixture.h"

namespace qanat::service {

inline constexpr uint64_t kSeed = 5;
inline constexpr char kFire[] = "\xF0\x9F\x94\xA5";

inline std::vector<TokenId> Bytes(std::string_view text) {
  std::vector<TokenId> ids;
  for (const char c : text) ids.push_back(fakes::ByteToken(c));
  return ids;
}

class GenerateFixture : public ::testing::Test {
 protected:
  GenerateFixture() { Start({}); }

  void Start(FixtureOptions options) {
    worker_.reset();
    worker_ = std::make_unique<Worker>(runner_, std::move(options));
    channel_ = worker_->Connect();
    stub_ = v1::InferenceService::NewStub(channel_);
  }

  // The model will answer `text` and then EOS.
  void Script(std::string_view text) {
    std::vector<TokenId> script = Bytes(text);
    script.push_back(worker_->tokenizer().eos());
    runner_.SetScript(kSeed, std::move(script));
  }

  static v1::GenerateRequest Request(int32_t max_tokens = 0) {
    v1::GenerateRequest request;
    request.set_text("prompt");
    request.mutable_sampling()->set_seed(kSeed);
    request.mutable_output()->set_token_ids(true);
    if (max_tokens > 0) request.mutable_stopping()->set_max_tokens(max_tokens);
    return request;
  }

  Heard Generate(const v1::GenerateRequest& request) {
    grpc::ClientContext context;
    return Generate(request, context);
  }
  Heard Generate(const v1::GenerateRequest& request, grpc::ClientContext& context) {
    return ReadAll(*stub_->Generate(&context, request));
  }
  // What is left of a stream, up to its end.
  static Heard ReadAll(grpc::ClientReader<v1::GenerateResponse>& reader) {
    Heard heard;
    for (v1::GenerateResponse message; reader.Read(&message);) heard.messages.push_back(message);
    heard.status = rpc::FromGrpc(reader.Finish());
    ExpectLaws(heard);
    return heard;
  }

  // The model runs on, and nothing stays behind.
  void ExpectAllEnds() {
    runner_.Allow(-1);
    EXPECT_TRUE(worker_->WaitUntilIdle());
  }

  ScriptedRunner runner_{fakes::ByteToken('x')};
  std::unique_ptr<Worker> worker_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::InferenceService::Stub> stub_;
};

}  // namespace qanat::service
