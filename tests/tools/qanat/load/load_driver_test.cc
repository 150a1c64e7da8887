#include "tools/qanat/load/load_driver.h"

#include <algorithm>
#include <string>
#include <thread>

#include "common/base/mutex.h"
#include "common/base/virtual_clock.h"
#include "common/rpc/options.h"
#include "common/rpc/status.h"
#include "gmock/gmock.h"
#include "grpcpp/server.h"
#include "grpcpp/server_builder.h"
#include "gtest/gtest.h"

namespace qanat::tools {
namespace {

constexpr int32_t kVocab = 1000;

// Answers with as many tokens as were asked for, two a message, the first 7000, but as a server does with no
// more than prompt and answer may have together (`context`); prompts that fill it are refused.
class FakeInference final : public v1::InferenceService::Service {
 public:
  explicit FakeInference(int context) : context_(context) {
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
  // From now on an answer stays away, until its caller leaves, while fewer than `behind` requests have come
  // after it; those of the last `behind` do not wait once `total` have come.
  void Hold(size_t behind, size_t total) EXCLUDES(mu_) {
    MutexLock lock(mu_);
    behind_ = behind;
    total_ = total;
  }

 private:
  grpc::Status Generate(grpc::ServerContext* context, const v1::GenerateRequest* request,
                        grpc::ServerWriter<v1::GenerateResponse>* writer) override EXCLUDES(mu_) {
    size_t number = 0;
    {
      MutexLock lock(mu_);
      prompts_.emplace_back(request->token_ids().ids().begin(), request->token_ids().ids().end());
      most_at_once_ = std::max(most_at_once_, ++at_once_);
      number = prompts_.size();
    }
    const grpc::Status status = Answer(*request, number, *context, *writer);
    MutexLock lock(mu_);
    --at_once_;
    return status;
  }

  bool MustWait(size_t number) EXCLUDES(mu_) {
    MutexLock lock(mu_);
    return prompts_.size() < std::min(number + behind_, total_);
  }

  grpc::Status Answer(const v1::GenerateRequest& request, size_t number, grpc::ServerContext& context,
                      grpc::ServerWriter<v1::GenerateResponse>& writer) EXCLUDES(mu_) {
    const int32_t room = context_ - request.token_ids().ids_size();
    if (room <= 0) return rpc::ToGrpc(absl::InvalidArgumentError("too long"));
    while (MustWait(number) && !context.IsCancelled()) std::this_thread::yield();
    v1::GenerateResponse response;
    const int32_t tokens = std::min(request.stopping().max_tokens(), room);
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

  const int context_;
  Mutex mu_;
  std::vector<std::vector<TokenId>> prompts_ GUARDED_BY(mu_);
  int at_once_ GUARDED_BY(mu_) = 0;
  int most_at_once_ GUARDED_BY(mu_) = 0;
  size_t behind_ GUARDED_BY(mu_) = 0;
  size_t total_ GUARDED_BY(mu_) = 0;
  std::string address_;
  std::unique_ptr<grpc::Server> server_;
};

class LoadDriverTest : public testing::Test {
 protected:
  using Progress = std::function<void(const LoadProgress&)>;

  Summary Run(
      const std::vector<Session>& sessions, int streams,
      const Progress& progress = [](const LoadProgress&) {}) {
    return RunBy(clock_, sessions, streams, progress);
  }

  Summary RunBy(const Clock& clock, const std::vector<Session>& sessions, int streams,
                const Progress& progress) {
    LoadDriver driver(rpc::MakeChannel(server_.address()), clock,
                      {.streams = streams,
                       .timeout = std::chrono::seconds(30),
                       .model = "",
                       .vocab_size = kVocab,
                       .seed = 1});
    driver.Run(sessions, interrupted_, progress);
    return driver.tally().Summarize(driver.elapsed(), {});
  }

  RealClock clock_;
  FakeInference server_{105};
  std::atomic<bool> interrupted_ = false;
};

TEST_F(LoadDriverTest, KeepsSoManyStreamsBusy) {
  // The first ends when the third has come, the second when the fourth has: nothing ends with two at once.
  server_.Hold(2, 20);
  const Summary summary =
      Run(MakeSessions({.sessions = 20, .turns = 1, .groups = 1, .shared = 0, .own = 10, .output = 5}), 3,
          [&](const LoadProgress& progress) {
            EXPECT_LE(progress.open, 3u);
            if (progress.elapsed > std::chrono::seconds(20)) interrupted_ = true;
          });
  EXPECT_EQ(summary.served, 20);
  EXPECT_EQ(summary.output_tokens, 100);
  EXPECT_EQ(summary.prompt_tokens, 200);
  EXPECT_EQ(summary.cached_tokens, 60);
  EXPECT_EQ(server_.most_at_once(), 3);
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

TEST_F(LoadDriverTest, AShortAnswerIsNoneThatWasServedAndEndsItsSession) {
  const Summary summary =
      Run(MakeSessions({.sessions = 2, .turns = 3, .groups = 1, .shared = 0, .own = 45, .output = 10}), 1);
  // The second prompt has 45 + 10 + 45 tokens: 5 more fit.
  EXPECT_EQ(summary.served, 2);
  EXPECT_EQ(summary.good, 2);
  EXPECT_EQ(summary.short_answers, 2);
  EXPECT_EQ(summary.output_tokens, 2 * (10 + 5));
  EXPECT_TRUE(summary.refused.empty());
  EXPECT_EQ(server_.prompts().size(), 4u);
}

TEST_F(LoadDriverTest, TokensOfOneMessageComeTogether) {
  const Summary summary =
      Run(MakeSessions({.sessions = 1, .turns = 1, .groups = 1, .shared = 0, .own = 5, .output = 6}), 1);
  // Two a message: 0, gap, 0, gap, 0.
  EXPECT_EQ(summary.itl.p50, 0);
  EXPECT_GT(summary.itl.p90, 0);
}

TEST_F(LoadDriverTest, ARefusalEndsItsSession) {
  std::vector<Session> sessions =
      MakeSessions({.sessions = 2, .turns = 4, .groups = 1, .shared = 0, .own = 42, .output = 10});
  const Summary summary = Run(sessions, 2);
  // 42, 94 and 146 tokens: the third turn is too long.
  EXPECT_EQ(summary.served, 4);
  EXPECT_THAT(summary.refused, testing::ElementsAre(testing::Pair("INVALID_ARGUMENT", 2)));
  EXPECT_EQ(server_.prompts().size(), 6u);
}

TEST_F(LoadDriverTest, SendsAtTheArrivalsAndNotBefore) {
  std::vector<Session> sessions =
      MakeSessions({.sessions = 30, .turns = 1, .groups = 1, .shared = 0, .own = 4, .output = 1});
  for (size_t i = 0; i < sessions.size(); ++i) {
    sessions[i].arrival = std::chrono::milliseconds(30 * static_cast<int>(i));
  }
  const auto due = [&](Duration now) {
    return static_cast<size_t>(std::count_if(sessions.begin(), sessions.end(),
                                             [&](const Session& session) { return session.arrival <= now; }));
  };
  // Between two reports whatever the first found due is sent, on however slow a machine.
  Duration before{};
  int reports = 0;
  const Summary summary = Run(sessions, 0, [&](const LoadProgress& progress) {
    EXPECT_GE(progress.begun, due(before));
    EXPECT_LE(progress.begun, due(progress.elapsed));
    before = progress.elapsed;
    ++reports;
  });
  EXPECT_GE(reports, 2);
  EXPECT_EQ(summary.served, 30);
  EXPECT_GE(summary.late.p50, 0);
  EXPECT_GE(summary.seconds, Seconds(sessions.back().arrival));
}

TEST_F(LoadDriverTest, OnlyInAnOpenLoopIsARequestLateAndItsFirstTokenWithIt) {
  std::vector<Session> sessions =
      MakeSessions({.sessions = 4, .turns = 1, .groups = 1, .shared = 0, .own = 4, .output = 1});
  for (Session& session : sessions) session.arrival = std::chrono::milliseconds(300);
  for (const int streams : {0, 4}) {
    VirtualClock clock;
    // The driver is away from the start on, for a second.
    const Summary summary = RunBy(clock, sessions, streams, [&](const LoadProgress& progress) {
      if (progress.elapsed == Duration::zero()) clock.Advance(std::chrono::seconds(1));
    });
    EXPECT_EQ(summary.served, 4);
    EXPECT_DOUBLE_EQ(summary.late.p50, streams == 0 ? 700 : 0);
    EXPECT_DOUBLE_EQ(summary.late.p99, streams == 0 ? 700 : 0);
    EXPECT_GE(summary.ttft.p50, summary.late.p50);
  }
}

TEST_F(LoadDriverTest, AnInterruptCancelsWhatIsOpenAndBeginsNothing) {
  server_.Hold(3, 3);
  const Summary summary =
      Run(MakeSessions({.sessions = 50, .turns = 1, .groups = 1, .shared = 0, .own = 4, .output = 1}), 2,
          [&](const LoadProgress& progress) {
            if (server_.prompts().size() == 2) interrupted_ = true;
          });
  EXPECT_EQ(summary.interrupted, 2);
  EXPECT_EQ(summary.served, 0);
  EXPECT_TRUE(summary.refused.empty());
}

TEST_F(LoadDriverTest, TimePassesEvenIfNothingIsSent) {
  std::vector<Session> sessions =
      MakeSessions({.sessions = 1, .turns = 1, .groups = 1, .shared = 0, .own = 4, .output = 1});
  sessions[0].arrival = std::chrono::hours(1);
  interrupted_ = true;
  const Summary summary = Run(sessions, 0);
  EXPECT_GT(summary.seconds, 0);
  EXPECT_EQ(summary.interrupted, 0);
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
