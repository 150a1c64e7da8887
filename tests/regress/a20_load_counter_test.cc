// A20: a router that counts its calls wrongly (one kind of call never, a cancelled one for ever) sends
// everything to one worker, or nothing. Two workers, two hundred requests of one prefix, half of them
// cancelled at random points.
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "router/routing/prefix_cost.h"
#include "tests/fakes/watched_worker.h"
#include "tests/router/forward/forward_fixture.h"

namespace qanat::router {
namespace {

constexpr int kWorkers = 2;
constexpr int kRequests = 200;
constexpr int kTicksOfACall = 30;

class A20LoadCounterTest : public ForwardFixture {
 protected:
  // A worker that serves: what it runs, what its cache has, what it tells.
  struct Served {
    fakes::WatchedWorker watched{1};
    uint64_t version = 0;
    std::map<CallId, int> age;
  };
  struct Caller {
    std::shared_ptr<RecordingStreamSink> sink;
    std::shared_ptr<ForwardedStream> stream;
    bool cancelled = false;
  };

  A20LoadCounterTest() : forwarder_(cluster_, prefix_cost_, clock_, metrics_, hash::kPublicKey) {
    ReadyWorker ready = ready_;
    ready.info.max_requests = 1000;  // no bound of ours: only the price of load spreads them
    ready.info.model.pool_tokens = 4096 * 16;
    for (int i = 0; i < kWorkers; ++i) {
      auto link = std::make_unique<fakes::FakeWorkerLink>();
      links_.push_back(link.get());
      cluster_.Add("w" + std::to_string(i), std::move(link));
      EXPECT_TRUE(links_.back()->BecomeReady(ready).ok());
      for (const auto& frame : served_[i].watched.Answer(links_[i]->BeginWatch())) links_[i]->Tell(frame);
      TellLoad(i);
    }
  }

  Caller Start(uint64_t number) {
    ForwardRequest request = MakeRequest();
    auto& ids = *request.request.mutable_token_ids()->mutable_ids();
    ids.Clear();
    for (int i = 0; i < 64; ++i) ids.Add(7);  // four blocks, everybody's
    ids.Add(static_cast<int32_t>(8 + number % 200));
    request.request.mutable_sampling()->set_seed(number);
    request.request.mutable_stopping()->set_max_tokens(kTicksOfACall);
    if (prefix_.empty()) {
      prefix_ = hash::BlockHasher(hash::kPublicKey, "f00d", 16).HashPrompt(request.cache_namespace, ids);
    }
    Caller caller{std::make_shared<RecordingStreamSink>(), nullptr};
    caller.stream = forwarder_.Start(std::move(request), caller.sink);
    return caller;
  }

  // The worker accepts, answers and ends; then it tells its load.
  void Tick(int worker) {
    Served& served = served_[worker];
    fakes::FakeWorkerLink& link = *links_[worker];
    for (const CallId id : link.Ids()) {
      const int age = served.age[id]++;
      if (age == 0) {
        link.Accept(id, ++served.version);
        if (served.watched.blocks().empty()) link.Tell(served.watched.Change(prefix_));
      } else if (link.At(id).cancelled) {
        link.End(id, absl::CancelledError("cancelled"), ++served.version);
      } else if (age >= kTicksOfACall) {
        link.End(id, absl::OkStatus(), ++served.version);
      } else {
        link.Respond(id, News(age - 1, 1));
      }
    }
    TellLoad(worker);
  }
  void TellLoad(int worker) {
    api::Load load;
    load.load_version = served_[worker].version;
    load.running = static_cast<int32_t>(links_[worker]->Ids().size());
    load.context_tokens = 80 * load.running;
    load.total_blocks = load.free_blocks = 4096;
    load.step_model = {.fixed_us = 5000,
                       .sequence_us = 300,
                       .weights_us = 0,
                       .token_us = 50,
                       .context_us = 1,
                       .attention_us = 0};
    EXPECT_EQ(links_[worker]->Tell(served_[worker].watched.Load(load)), WatchVerdict::kContinue);
  }
  void ExpectExactCounts() {
    for (int i = 0; i < kWorkers; ++i) {
      ASSERT_EQ(InFlight(static_cast<size_t>(i)), static_cast<int>(links_[i]->Ids().size()));
    }
  }

  PrefixCost prefix_cost_;
  Forwarder forwarder_;
  Served served_[kWorkers];
  std::vector<hash::BlockHash> prefix_;
};

TEST_F(A20LoadCounterTest, TwoHundredOfOnePrefixAreCountedAndShared) {
  std::mt19937 random(20);
  std::vector<Caller> callers;
  for (int i = 0; i < kRequests; ++i) {
    callers.push_back(Start(static_cast<uint64_t>(i)));
    // Half are cancelled in the end: at once, in the middle, or when they are over.
    Caller& other = callers[callers.size() - 1 - random() % std::min<size_t>(callers.size(), 40)];
    if (i % 2 == 1 && !std::exchange(other.cancelled, true)) other.stream->Cancel();
    ExpectExactCounts();
    for (int worker = 0; worker < kWorkers; ++worker) Tick(worker);
    ExpectExactCounts();
  }
  const std::vector<std::string> of = metrics_.dispatches();  // the worker of each request
  ASSERT_EQ(of.size(), size_t{kRequests});
  // The first ones follow the prefix until its worker is worth leaving.
  const auto late = static_cast<int>(std::count(of.begin() + 50, of.end(), "w0"));
  EXPECT_GE(late, 60) << "of 150";
  EXPECT_LE(late, 90) << "of 150";
  for (int i = 0; i <= kTicksOfACall; ++i) {
    for (int worker = 0; worker < kWorkers; ++worker) Tick(worker);
  }
  ExpectExactCounts();
  for (int i = 0; i < kWorkers; ++i) EXPECT_EQ(InFlight(static_cast<size_t>(i)), 0);
  for (const Caller& caller : callers) EXPECT_EQ(caller.sink->ends().size(), 1u);
}

}  // namespace
}  // namespace qanat::router
