#include "router/link/grpc_link.h"

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/api/watch.h"
#include "common/base/error.h"
#include "common/base/mutex.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/fakes/fake_worker_server.h"

namespace qanat::router {
namespace {

using fakes::FakeWorkerServer;
using std::chrono::milliseconds;
using testing::HasSubstr;

// What observer and sinks heard, in order, and a way to wait for it.
class Journal {
 public:
  void Add(const std::string& entry) {
    MutexLock lock(mu_);
    entries_.push_back(entry);
    changed_.NotifyAll();
  }
  // Waits for the next entry that begins so; false after 10 seconds.
  bool Await(const std::string& beginning) {
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    MutexLock lock(mu_);
    for (;;) {
      while (read_ < entries_.size()) {
        if (entries_[read_++].compare(0, beginning.size(), beginning) == 0) return true;
      }
      const auto left = until - std::chrono::steady_clock::now();
      if (left <= Duration::zero()) return false;
      changed_.WaitFor(mu_, left);
    }
  }
  std::vector<std::string> entries() const {
    MutexLock lock(mu_);
    return entries_;
  }

 private:
  mutable Mutex mu_;
  CondVar changed_;
  std::vector<std::string> entries_ GUARDED_BY(mu_);
  size_t read_ GUARDED_BY(mu_) = 0;
};

class RecordingObserver final : public LinkObserver {
 public:
  explicit RecordingObserver(Journal& journal) : journal_(journal) {}

  absl::Status OnReady(ReadyWorker worker) override {
    absl::Status answer;
    {
      MutexLock lock(mu_);
      worker_ = std::move(worker);
      answer = answer_;
    }
    journal_.Add("ready");
    return answer;
  }
  void OnDown(const absl::Status& why) override { journal_.Add("down " + std::string(why.message())); }
  WatchPosition OnWatchBegin() override {
    MutexLock lock(mu_);
    return position_;
  }
  // This observer knows epoch 1 only, and takes frames of an odd seq for wrong.
  WatchVerdict OnFrame(const api::WatchFrame& frame) override {
    journal_.Add("frame " + std::to_string(frame.epoch) + "/" + std::to_string(frame.seq));
    if (frame.epoch != 1) return WatchVerdict::kReconnect;
    return frame.seq % 2 == 0 ? WatchVerdict::kContinue : WatchVerdict::kResubscribe;
  }
  void OnWatchEnd(const absl::Status& why) override {
    journal_.Add("watch end " + absl::StatusCodeToString(why.code()));
  }
  void OnSign() override { ++signs_; }

  void AnswerWith(const absl::Status& answer) {
    MutexLock lock(mu_);
    answer_ = answer;
  }
  void HoldFrom(const WatchPosition& position) {
    MutexLock lock(mu_);
    position_ = position;
  }
  ReadyWorker worker() const {
    MutexLock lock(mu_);
    return worker_;
  }
  int signs() const { return signs_; }

 private:
  Journal& journal_;
  std::atomic<int> signs_ = 0;
  mutable Mutex mu_;
  ReadyWorker worker_ GUARDED_BY(mu_);
  absl::Status answer_ GUARDED_BY(mu_);
  WatchPosition position_ GUARDED_BY(mu_);
};

class RecordingCall final : public CallSink {
 public:
  RecordingCall(Journal& journal, std::string name) : journal_(journal), name_(std::move(name)) {}
  void OnAccepted(uint64_t load_version) override {
    journal_.Add(name_ + " accepted " + std::to_string(load_version));
  }
  void OnResponse(v1::GenerateResponse response) override {
    journal_.Add(name_ + " said " + response.text());
  }
  void OnEnd(const absl::Status& status, uint64_t load_version) override {
    journal_.Add(name_ + " end " + absl::StatusCodeToString(status.code()) + " " + ReasonOf(status) +
                 (load_version == 0 ? "" : "v" + std::to_string(load_version)));
  }
  void OnRedirect(Redirect why, const absl::Status& status) override {
    journal_.Add(name_ + (why == Redirect::kDraining ? " draining " : " full ") + ReasonOf(status));
  }

 private:
  Journal& journal_;
  const std::string name_;
};

class GrpcLinkTest : public testing::Test {
 protected:
  void StartWorker(const FakeWorkerServer::Options& options = {}) {
    worker_ = std::make_unique<FakeWorkerServer>(options);
    address_ = worker_->address();
  }
  void OpenLink() {
    link_ = std::make_unique<GrpcLink>(address_, GrpcLink::Options{.clock = clock_,
                                                                   .tokenizers = store_,
                                                                   .seed = 1,
                                                                   .router_id = 0xab,
                                                                   .first_delay = milliseconds(5),
                                                                   .longest_delay = milliseconds(50)});
    link_->Open(observer_);
  }
  void OpenReadyLink(const FakeWorkerServer::Options& options = {}) {
    StartWorker(options);
    OpenLink();
    ASSERT_TRUE(journal_.Await("ready"));
  }
  static WorkerCall Prompt(const std::string& text) {
    WorkerCall call;
    for (const char c : text) call.request.mutable_token_ids()->add_ids(5 + c);
    return call;
  }
  std::optional<CallId> Start(const std::string& name, const WorkerCall& call) {
    return link_->Start(call, std::make_shared<RecordingCall>(journal_, name));
  }

  RealClock clock_;
  TokenizerStore store_;
  Journal journal_;
  RecordingObserver observer_{journal_};
  std::string address_;
  std::unique_ptr<FakeWorkerServer> worker_;
  std::unique_ptr<GrpcLink> link_;
};

TEST_F(GrpcLinkTest, TellsWhatTheWorkerIs) {
  OpenReadyLink();
  EXPECT_EQ(observer_.worker().info.model.id, "tiny");
  EXPECT_EQ(observer_.worker().info.epoch, 1u);
  EXPECT_EQ(observer_.worker().tokenizer->Encode("hi").size(), 2u);
}

TEST_F(GrpcLinkTest, CarriesACallAndItsAnswer) {
  OpenReadyLink();
  WorkerCall call = Prompt("ok");
  call.cache_namespace.bytes[15] = 7;
  call.deadline = clock_.Now() + std::chrono::seconds(60);
  ASSERT_TRUE(Start("a", call).has_value());
  ASSERT_TRUE(journal_.Await("a end"));
  EXPECT_THAT(journal_.entries(),
              testing::ElementsAre("ready", "a accepted 1", "a said o", "a said k", "a end OK v2"));
  const cluster::v1::StartCall start = worker_->NextStart();
  EXPECT_EQ(start.cache_namespace().size(), 16u);
  EXPECT_EQ(start.cache_namespace()[15], 7);
  EXPECT_GT(start.timeout().seconds(), 50);
  EXPECT_LE(start.timeout().seconds(), 60);
}

TEST_F(GrpcLinkTest, CarriesManyCallsOnOneSession) {
  OpenReadyLink({.mode = FakeWorkerServer::Mode::kHold});
  std::vector<uint64_t> ids;
  for (int i = 0; i < 50; ++i) ASSERT_TRUE(Start("c" + std::to_string(i), Prompt("x")).has_value());
  for (int i = 0; i < 50; ++i) ids.push_back(worker_->NextStart().call_id());
  for (int i = 49; i >= 0; --i) worker_->SendEnd(ids[i], absl::OkStatus());
  for (int i = 49; i >= 0; --i) ASSERT_TRUE(journal_.Await("c" + std::to_string(i) + " end OK"));
}

TEST_F(GrpcLinkTest, AnErrorKeepsItsReasonAndHint) {
  OpenReadyLink({.mode = FakeWorkerServer::Mode::kRefuse,
                 .refusal = WithReason(absl::ResourceExhaustedError("full"), "QUEUE_FULL")});
  Start("a", Prompt("x"));
  EXPECT_TRUE(journal_.Await("a end RESOURCE_EXHAUSTED QUEUE_FULL"));
}

TEST_F(GrpcLinkTest, ARedirectIsNoEnd) {
  OpenReadyLink({.mode = FakeWorkerServer::Mode::kRefuse,
                 .refusal = WithReason(absl::ResourceExhaustedError("full"), "TOKENS_FULL"),
                 .redirect = cluster::v1::REDIRECT_FULL});
  Start("a", Prompt("x"));
  EXPECT_TRUE(journal_.Await("a full TOKENS_FULL"));
}

TEST_F(GrpcLinkTest, CancelReachesTheWorker) {
  OpenReadyLink({.mode = FakeWorkerServer::Mode::kHold});
  const std::optional<CallId> id = Start("a", Prompt("x"));
  ASSERT_TRUE(id.has_value());
  link_->Cancel(*id);
  ASSERT_TRUE(worker_->AwaitCancel(worker_->NextStart().call_id()));
  worker_->SendEnd(*id, absl::CancelledError("as you wish"));
  EXPECT_TRUE(journal_.Await("a end CANCELLED"));
  link_->Cancel(*id);  // it has ended: nothing
}

TEST_F(GrpcLinkTest, ABrokenSessionIsToldBeforeItsCallsEnd) {
  OpenReadyLink({.mode = FakeWorkerServer::Mode::kHold});
  Start("a", Prompt("x"));
  worker_->NextStart();
  worker_->BreakSessions();
  ASSERT_TRUE(journal_.Await("down"));
  EXPECT_TRUE(journal_.Await("a end UNAVAILABLE WORKER_LOST"));
}

TEST_F(GrpcLinkTest, AWorkerThatDiesIsLeftAtOnceAndUsedAgainWhenItIsBack) {
  OpenReadyLink({.mode = FakeWorkerServer::Mode::kHold});
  Start("a", Prompt("x"));
  worker_->NextStart();
  const auto before = std::chrono::steady_clock::now();
  worker_.reset();
  ASSERT_TRUE(journal_.Await("down"));
  EXPECT_TRUE(journal_.Await("a end UNAVAILABLE WORKER_LOST"));
  EXPECT_LT(std::chrono::steady_clock::now() - before, std::chrono::seconds(1));

  StartWorker({.listen = address_});
  ASSERT_TRUE(journal_.Await("ready"));
  Start("b", Prompt("x"));
  EXPECT_TRUE(journal_.Await("b end OK"));
}

TEST_F(GrpcLinkTest, WaitsForAWorkerThatIsNotThereYet) {
  StartWorker();
  worker_.reset();
  OpenLink();
  ASSERT_TRUE(journal_.Await("down"));
  EXPECT_FALSE(Start("a", Prompt("x")).has_value());
  StartWorker({.listen = address_});
  EXPECT_TRUE(journal_.Await("ready"));
}

cluster::v1::WatchResponse LoadFrame(uint64_t epoch, uint64_t seq) {
  return api::ToProto({epoch, seq, api::Load{}});
}

TEST_F(GrpcLinkTest, WatchesTheWorkerFromWhereTheObserverIs) {
  observer_.HoldFrom({.epoch = 1, .seq = 40});
  OpenReadyLink();
  const cluster::v1::WatchRequest request = worker_->NextWatch();
  EXPECT_EQ(request.router_id(), 0xabu);
  EXPECT_EQ(request.known_epoch(), 1u);
  EXPECT_EQ(request.known_seq(), 40u);
  worker_->SendFrame(LoadFrame(1, 42));
  worker_->SendFrame(cluster::v1::WatchResponse());  // of a later release
  worker_->SendFrame(LoadFrame(1, 44));
  EXPECT_TRUE(journal_.Await("frame 1/42"));
  EXPECT_TRUE(journal_.Await("frame 1/44"));
}

TEST_F(GrpcLinkTest, AFrameThatTheObserverRefusesBeginsAnotherWatchAndNothingElse) {
  OpenReadyLink({.mode = FakeWorkerServer::Mode::kHold});
  Start("a", Prompt("x"));
  EXPECT_EQ(worker_->NextWatch().known_seq(), 0u);
  worker_->SendFrame(LoadFrame(1, 3));
  observer_.HoldFrom({.epoch = 1, .seq = 2});
  EXPECT_EQ(worker_->NextWatch().known_seq(), 2u);
  worker_->SendFrame(LoadFrame(1, 6));
  EXPECT_TRUE(journal_.Await("frame 1/6"));
  worker_->SendEnd(worker_->NextStart().call_id(), absl::OkStatus());
  EXPECT_TRUE(journal_.Await("a end OK"));
  for (const std::string& entry : journal_.entries())
    EXPECT_THAT(entry, testing::Not(HasSubstr("watch end")));
}

TEST_F(GrpcLinkTest, AWatchThatBreaksIsBegunAgainWhileTheSessionGoesOn) {
  OpenReadyLink({.mode = FakeWorkerServer::Mode::kHold});
  Start("a", Prompt("x"));
  EXPECT_EQ(worker_->NextWatch().router_id(), 0xabu);
  worker_->BreakWatch();
  EXPECT_TRUE(journal_.Await("watch end UNAVAILABLE"));
  EXPECT_EQ(worker_->NextWatch().router_id(), 0xabu);
  worker_->SendEnd(worker_->NextStart().call_id(), absl::OkStatus());
  EXPECT_TRUE(journal_.Await("a end OK"));
}

TEST_F(GrpcLinkTest, AWorkerThatTurnsOutToBeAnotherIsAskedAgainWhatItIs) {
  OpenReadyLink();
  worker_->NextWatch();
  worker_->SendFrame(LoadFrame(2, 2));
  ASSERT_TRUE(journal_.Await("frame 2/2"));
  ASSERT_TRUE(journal_.Await("down"));
  EXPECT_TRUE(journal_.Await("ready"));
}

TEST_F(GrpcLinkTest, AnImpossibleFrameEndsTheWatch) {
  OpenReadyLink();
  worker_->NextWatch();
  cluster::v1::WatchResponse frame = LoadFrame(1, 2);
  frame.mutable_load()->set_running(-1);
  worker_->SendFrame(frame);
  EXPECT_TRUE(journal_.Await("watch end INVALID_ARGUMENT"));
  EXPECT_EQ(worker_->NextWatch().router_id(), 0xabu);
}

TEST_F(GrpcLinkTest, AWorkerWithoutWatchServes) {
  OpenReadyLink({.watch = false});
  EXPECT_TRUE(journal_.Await("watch end UNIMPLEMENTED"));
  Start("a", Prompt("x"));
  EXPECT_TRUE(journal_.Await("a end OK"));
  EXPECT_GT(observer_.signs(), 0);
  worker_->BreakSessions();
  EXPECT_TRUE(journal_.Await("ready"));
  EXPECT_TRUE(journal_.Await("watch end UNIMPLEMENTED")) << "it is asked again with each session";
}

TEST_F(GrpcLinkTest, TheWatchEndsWithTheSession) {
  OpenReadyLink();
  worker_->NextWatch();
  Start("a", Prompt("x"));
  worker_->NextStart();
  worker_->BreakSessions();
  ASSERT_TRUE(journal_.Await("down"));
  ASSERT_TRUE(journal_.Await("ready"));
  EXPECT_EQ(worker_->NextWatch().router_id(), 0xabu);
}

TEST_F(GrpcLinkTest, AsksForTheTokenizerOnceWhileItIsHeld) {
  OpenReadyLink();
  const ReadyWorker held = observer_.worker();
  Start("a", Prompt("x"));
  worker_->NextStart();  // the session is there: it can be broken
  worker_->BreakSessions();
  ASSERT_TRUE(journal_.Await("ready"));
  EXPECT_EQ(worker_->tokenizer_calls(), 1);
  EXPECT_EQ(observer_.worker().tokenizer, held.tokenizer);
}

TEST_F(GrpcLinkTest, ATokenizerOfAnotherSha256IsRefused) {
  StartWorker({.sha256 = std::string(32, 'x')});
  OpenLink();
  EXPECT_TRUE(journal_.Await("down its tokenizer does not have the sha256"));
}

TEST_F(GrpcLinkTest, AWorkerOfImpossibleFactsIsRefused) {
  StartWorker();
  cluster::v1::GetInfoResponse info = worker_->info();
  info.set_block_size(0);
  worker_->SetInfo(info);
  OpenLink();
  EXPECT_TRUE(journal_.Await("down block_size"));
}

TEST_F(GrpcLinkTest, AWorkerWhoseModelIsSmallerThanItsTokenizerIsRefused) {
  StartWorker();
  cluster::v1::GetInfoResponse info = worker_->info();
  info.set_vocab_size(100);
  worker_->SetInfo(info);
  OpenLink();
  EXPECT_TRUE(journal_.Await("down its tokenizer has 261 tokens"));
}

TEST_F(GrpcLinkTest, AWorkerThatTheObserverRefusesIsAskedAgain) {
  observer_.AnswerWith(absl::FailedPreconditionError("not one of us"));
  StartWorker();
  OpenLink();
  ASSERT_TRUE(journal_.Await("down not one of us"));
  observer_.AnswerWith(absl::OkStatus());
  // Some attempts may still have had the old answer.
  bool accepted = false;
  for (int i = 0; i < 100 && !accepted; ++i) {
    ASSERT_TRUE(journal_.Await("ready"));
    accepted = Start("a", Prompt("x")).has_value() && journal_.Await("a end OK");
  }
  EXPECT_TRUE(accepted);
}

TEST_F(GrpcLinkTest, CloseEndsCallsAndThenNothingMoreIsHeard) {
  OpenReadyLink({.mode = FakeWorkerServer::Mode::kHold});
  const std::optional<CallId> id = Start("a", Prompt("x"));
  ASSERT_TRUE(id.has_value());
  worker_->NextStart();
  link_->Close();
  const std::vector<std::string> heard = journal_.entries();
  EXPECT_THAT(heard, testing::Contains(HasSubstr("a end UNAVAILABLE")));
  EXPECT_FALSE(Start("b", Prompt("x")).has_value());
  link_->Cancel(*id);
  link_->Close();
  EXPECT_EQ(journal_.entries(), heard);
}

TEST_F(GrpcLinkTest, CloseDoesNotWaitForAWorkerThatIsNotThere) {
  StartWorker();
  worker_.reset();
  OpenLink();
  const auto before = std::chrono::steady_clock::now();
  link_->Close();
  EXPECT_LT(std::chrono::steady_clock::now() - before, std::chrono::seconds(2));
}

}  // namespace
}  // namespace qanat::router
