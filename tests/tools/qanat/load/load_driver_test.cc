#include "tools/qanat/load/load_driver.h"

#include <algorithm>
#include <string>
#include <thread>

#include "common/base/mutex.h"
#include "common/rpc/options.h"
#include "common/rpc/status.h"
#include "gmock/gmock.h"
#include "grpcpp/server.h"
#include "grpcpp/server_builder.h"
#include "gtest/gtest.h"

namespace qanat::tools {
namespace {

constexpr int32_t kVocab = 1000;

// Answers with as many tokens as were asked for, two a message, the first 7000; prompts longer than `longest`
// are refused.
class FakeInference final : public v1::InferenceService::Service {
 public:
  explicit FakeInference(int longest) : longest_(longest) {
    int port = 0;
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
    address_ = "127.0.0.1:" + std::to_string(port);
  }
  ~FakeInference() override { server_->Shutdown(); }

  const std::string& address() const { return address_; }
  std::vector<std::vector<TokenId>> prompts() EXCLUDES(mu_) {
    MutexLock lock(mu_);
    return prompts_;
  }
  int most_at_once() EXCLUDES(mu_) {
    MutexLock lock(mu_);
    return most_at_once_;
  }
  // From now on answers stay away, until their callers leave.
  void Hold() EXCLUDES(mu_) {
    MutexLock lock(mu_);
    hold_ = true;
  }

 private:
  grpc::Status Generate(grpc::ServerContext* context, const v1::GenerateRequest* request,
                        grpc::ServerWriter<v1::GenerateResponse>* writer) override EXCLUDES(mu_) {
    bool hold = false;
    {
      MutexLock lock(mu_);
      prompts_.emplace_back(request->token_ids().ids().begin(), request->token_ids().ids().end());
      most_at_once_ = std::max(most_at_once_, ++at_once_);
      hold = hold_;
    }
    const grpc::Status status = Answer(*request, hold, *context, *writer);
    MutexLock lock(mu_);
    --at_once_;
    return status;
  }

  grpc::Status Answer(const v1::GenerateRequest& request, bool hold, grpc::ServerContext& context,
                      grpc::ServerWriter<v1::GenerateResponse>& writer) const {
    if (request.token_ids().ids_size() > longest_) {
      return rpc::ToGrpc(absl::InvalidArgumentError("too long"));
    }
    while (hold && !context.IsCancelled()) std::this_thread::yield();
    v1::GenerateResponse response;
    const int32_t tokens = request.stopping().max_tokens();
    for (int32_t i = 0; i < tokens; ++i) {
      response.add_token_ids(7000 + i);
      const bool last = i + 1 == tokens;
      if (i % 2 == 0 && !last) continue;
      if (last) response.mutable_usage()->set_cached_tokens(3);
      writer.Write(response);
      response.Clear();
    }
    return grpc::Status::OK;
  }

  const int longest_;
  Mutex mu_;
  std::vector<std::vector<TokenId>> prompts_ GUARDED_BY(mu_);
  int at_once_ GUARDED_BY(mu_) = 0;
  int most_at_once_ GUARDED_BY(mu_) = 0;
  bool hold_ GUARDED_BY(mu_) = false;
  std::string address_;
  std::unique_ptr<grpc::Server> server_;
};

class LoadDriverTest : public testing::Test {
 protected:
  Summary Run(
      const std::vector<Session>& sessions, int streams,
      const std::function<void(const LoadProgress&)>& progress = [](const LoadProgress&) {}) {
    LoadDriver driver(rpc::MakeChannel(server_.address()), clock_,
                      {.streams = streams,
                       .timeout = std::chrono::seconds(30),
                       .model = "",
                       .vocab_size = kVocab,
                       .seed = 1});
    driver.Run(sessions, interrupted_, progress);
    return driver.tally().Summarize(driver.elapsed(), {});
  }

  RealClock clock_;
  FakeInference server_{100};
  std::atomic<bool> interrupted_ = false;
};

TEST_F(LoadDriverTest, KeepsSoManyStreamsBusy) {
  const Summary summary =
      Run(MakeSessions({.sessions = 20, .turns = 1, .groups = 1, .shared = 0, .own = 10, .output = 5}), 3);
  EXPECT_EQ(summary.served, 20);
  EXPECT_EQ(summary.output_tokens, 100);
  EXPECT_EQ(summary.prompt_tokens, 200);
  EXPECT_EQ(summary.cached_tokens, 60);
  EXPECT_LE(server_.most_at_once(), 3);
  EXPECT_EQ(server_.prompts().size(), 20u);
}

TEST_F(LoadDriverTest, ATurnRepeatsWhatWasSaidAndAnswered) {
  const std::vector<Session> sessions =
      MakeSessions({.sessions = 1, .turns = 3, .groups = 1, .shared = 8, .own = 10, .output = 5});
  EXPECT_EQ(Run(sessions, 1).served, 3);
  std::vector<TokenId> expected;
  const auto prompts = server_.prompts();
  ASSERT_EQ(prompts.size(), 3u);
  for (int turn = 0; turn < 3; ++turn) {
    for (const Piece& piece : sessions[0].turns[turn].prompt) AppendTokens(piece, 1, kVocab, expected);
    EXPECT_EQ(prompts[turn], expected);
    for (int i = 0; i < 5; ++i) expected.push_back(7000 + i);
  }
}

TEST_F(LoadDriverTest, ARefusalEndsItsSession) {
  std::vector<Session> sessions =
      MakeSessions({.sessions = 2, .turns = 4, .groups = 1, .shared = 0, .own = 45, .output = 10});
  const Summary summary = Run(sessions, 2);
  // 45, 100 and 155 tokens: the third turn is too long.
  EXPECT_EQ(summary.served, 4);
  EXPECT_THAT(summary.refused, testing::ElementsAre(testing::Pair("INVALID_ARGUMENT", 2)));
  EXPECT_EQ(server_.prompts().size(), 6u);
}

TEST_F(LoadDriverTest, SendsAtTheArrivalsAndNotBefore) {
  std::vector<Session> sessions =
      MakeSessions({.sessions = 30, .turns = 1, .groups = 1, .shared = 0, .own = 4, .output = 1});
  ArriveAtRandom(300, 5, sessions);
  const Summary summary = Run(sessions, 0);
  EXPECT_EQ(summary.served, 30);
  EXPECT_GE(summary.late.p50, 0);
  EXPECT_GE(summary.seconds, Seconds(sessions.back().arrival));
}

TEST_F(LoadDriverTest, AnInterruptCancelsWhatIsOpenAndBeginsNothing) {
  server_.Hold();
  const Summary summary =
      Run(MakeSessions({.sessions = 50, .turns = 1, .groups = 1, .shared = 0, .own = 4, .output = 1}), 2,
          [&](const LoadProgress& progress) {
            if (server_.prompts().size() == 2) interrupted_ = true;
          });
  EXPECT_EQ(summary.interrupted, 2);
  EXPECT_EQ(summary.served, 0);
  EXPECT_TRUE(summary.refused.empty());
}

TEST_F(LoadDriverTest, NobodyThereIsARefusal) {
  LoadDriver driver(
      rpc::MakeChannel("127.0.0.1:1"), clock_,
      {.streams = 2, .timeout = std::chrono::seconds(30), .model = "", .vocab_size = 9, .seed = 1});
  driver.Run(MakeSessions({.sessions = 3, .turns = 1, .groups = 1, .shared = 0, .own = 4, .output = 1}),
             interrupted_, [](const LoadProgress&) {});
  const Summary summary = driver.tally().Summarize(driver.elapsed(), {});
  EXPECT_THAT(summary.refused, testing::ElementsAre(testing::Pair("UNAVAILABLE", 3)));
}

}  // namespace
}  // namespace qanat::tools
