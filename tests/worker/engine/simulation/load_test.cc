// The engine under load, on a device that takes the time which a step model says: gaps, overload, mass
// cancellation.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <deque>
#include <memory>
#include <random>
#include <vector>

#include "common/base/step_model.h"
#include "gtest/gtest.h"
#include "tests/fakes/fake_clock.h"
#include "tests/fakes/fake_model_runner.h"
#include "tests/fakes/recording_sink.h"
#include "worker/engine/engine.h"

namespace qanat::engine {
namespace {

using std::chrono::milliseconds;

// A small model on few cores: 1,600 tokens a second of prefill, 270 decodes a second.
constexpr StepModel kDevice{.fixed_us = 500,
                            .sequence_us = 20,
                            .weights_us = 3000,
                            .token_us = 600,
                            .context_us = 0.2,
                            .attention_us = 0.05};

Duration Microseconds(double us) { return Duration(static_cast<int64_t>(us * 1000)); }

// Notes when its tokens came.
class TimedSink final : public fakes::RecordingSink {
 public:
  explicit TimedSink(const Clock& clock) : clock_(clock) {}
  void OnTokens(int32_t first, absl::Span<const TokenId> tokens,
                absl::Span<const sampling::ScoredToken> scores) override {
    RecordingSink::OnTokens(first, tokens, scores);
    times_.push_back(clock_.Now());
  }
  void OnEnd(const Outcome& outcome) override {
    RecordingSink::OnEnd(outcome);
    end_ = clock_.Now();
  }
  const std::vector<Time>& times() const { return times_; }
  Time end() const { return end_; }

 private:
  const Clock& clock_;
  std::vector<Time> times_;
  Time end_{};
};

class LoadTest : public testing::Test {
 protected:
  void Start(const EngineOptions& options) {
    options_ = options;
    model_ = std::make_unique<fakes::FakeModelRunner>(options.num_blocks, options.block_size);
    model_->set_on_launch([this](const ModelBatch& batch) {
      const double us = kDevice.PredictUs(ShapeOf(batch));
      longest_chunk_us_ = std::max(longest_chunk_us_, batch.num_tokens >= options_.chunk_tokens ? us : 0);
      clock_.Advance(Microseconds(us));
    });
    engine_ =
        std::make_unique<Engine>(options_, hash::BlockHasher(hash::kPublicKey, "model", options.block_size),
                                 *model_, clock_, metrics_);
  }

  Request MakeRequest(int prompt, int max_tokens) {
    Request request;
    for (int i = 0; i < prompt; ++i) request.prompt.push_back(static_cast<TokenId>(random_() % 1000));
    request.max_tokens = max_tokens;
    request.sampling.temperature = 0;
    request.sink = std::make_shared<TimedSink>(clock_);
    return request;
  }
  static TimedSink& SinkOf(const Request& request) { return static_cast<TimedSink&>(*request.sink); }

  std::mt19937_64 random_{7};
  fakes::FakeClock clock_;
  EngineMetrics metrics_;
  EngineOptions options_;
  std::unique_ptr<fakes::FakeModelRunner> model_;
  std::unique_ptr<Engine> engine_;
  double longest_chunk_us_ = 0;
};

Duration WorstGap(const std::vector<Time>& times, Time from) {
  Duration worst{};
  for (size_t i = 1; i < times.size(); ++i) {
    if (times[i] >= from) worst = std::max(worst, Duration(times[i] - times[i - 1]));
  }
  return worst;
}

TEST_F(LoadTest, FourDecodesKeepTheirPaceBesideAPromptOfEightThousandTokens) {
  EngineOptions options;
  options.context_length = 8192;
  options.num_blocks = 1024;
  for (const Duration target : {Duration::zero(), Duration(milliseconds(100))}) {
    options.inter_token_target = target;
    longest_chunk_us_ = 0;
    Start(options);
    std::vector<Request> decodes;
    for (int i = 0; i < 4; ++i) {
      decodes.push_back(MakeRequest(20, 400));
      ASSERT_TRUE(engine_->Submit(decodes.back()).ok());
    }
    // Long enough to learn what steps take.
    for (int i = 0; i < 200; ++i) engine_->Step();
    const Request prompt = MakeRequest(8000, 1);
    const Time submitted = clock_.Now();
    ASSERT_TRUE(engine_->Submit(prompt).ok());
    while (!SinkOf(prompt).ended()) engine_->Step();
    for (const Request& decode : decodes) {
      const Duration worst = WorstGap(SinkOf(decode).times(), submitted);
      EXPECT_FALSE(SinkOf(decode).ended()) << "it was to run beside the prompt";
      if (target == Duration::zero()) {
        EXPECT_LE(worst, 2 * Microseconds(longest_chunk_us_));
      } else {
        // What it takes to learn what a chunk costs is behind it.
        EXPECT_LE(WorstGap(SinkOf(decode).times(), submitted + std::chrono::seconds(1)), target * 3 / 2);
      }
    }
  }
}

// Requests at random times, of 100 tokens and about 40 of output, each due 3 seconds after it comes.
struct Outcomes {
  int in_time = 0;
  int late = 0;
  int refused = 0;
  double seconds = 0;
  double goodput() const { return in_time / seconds; }
};

class OverloadTest : public LoadTest {
 protected:
  Outcomes Run(double requests_per_second) {
    EngineOptions options;
    options.context_length = 1024;
    options.num_blocks = 1024;
    options.max_seqs = 16;
    options.prefix_cache = false;
    Start(options);
    constexpr Duration kPatience = std::chrono::seconds(3);
    constexpr Duration kSpan = std::chrono::seconds(60);
    std::exponential_distribution<double> gap(requests_per_second);
    std::exponential_distribution<double> length(1.0 / 40);
    const Time began = clock_.Now();
    Time next = began;
    std::vector<Request> accepted;
    Outcomes outcomes;
    while (clock_.Now() - began < kSpan) {
      while (next <= clock_.Now()) {
        Request request = MakeRequest(100, 1 + std::min(200, static_cast<int>(length(random_))));
        request.deadline = next + kPatience;
        if (engine_->Submit(request).ok()) {
          accepted.push_back(std::move(request));
        } else {
          ++outcomes.refused;
        }
        next += Duration(static_cast<int64_t>(gap(random_) * 1e9));
      }
      if (!engine_->Step()) clock_.Advance(std::max<Duration>(next - clock_.Now(), Duration(1)));
    }
    for (const Request& request : accepted) {
      if (!SinkOf(request).ended()) continue;
      const bool in_time =
          SinkOf(request).outcome().status.ok() && SinkOf(request).end() <= *request.deadline;
      ++(in_time ? outcomes.in_time : outcomes.late);
    }
    outcomes.seconds = std::chrono::duration<double>(clock_.Now() - began).count();
    return outcomes;
  }
};

TEST_F(OverloadTest, EightTimesTheLoadKeepsTheGoodput) {
  // Capacity: the goodput stops growing with the load.
  double capacity = 0;
  for (const double rate : {4.0, 6.0, 8.0, 10.0}) capacity = std::max(capacity, Run(rate).goodput());
  const Outcomes at_capacity = Run(capacity);
  const Outcomes overloaded = Run(8 * capacity);
  std::printf(
      "capacity %.2f/s; at 1x %.2f/s in time (%d late, %d refused), at 8x %.2f/s (%d late, %d refused)\n",
      capacity, at_capacity.goodput(), at_capacity.late, at_capacity.refused, overloaded.goodput(),
      overloaded.late, overloaded.refused);
  EXPECT_GE(overloaded.goodput(), 0.9 * at_capacity.goodput());
  EXPECT_GT(overloaded.refused, overloaded.in_time) << "the rest was told at once";
}

TEST_F(LoadTest, AHundredThousandMixedCancelsLeakNoBlock) {
  EngineOptions options;
  options.context_length = 256;
  options.num_blocks = 200;
  options.max_seqs = 32;
  options.queue_requests = 200;
  options.queue_tokens = 1 << 20;
  Start(options);
  std::deque<std::pair<SequenceId, Request>> live;
  int cancels = 0;
  while (cancels < 100000) {
    while (live.size() < 64) {
      Request request =
          MakeRequest(1 + static_cast<int>(random_() % 60), 1 + static_cast<int>(random_() % 100));
      const auto accepted = engine_->Submit(request);
      ASSERT_TRUE(accepted.ok()) << accepted.status();
      live.emplace_back(accepted->id, std::move(request));
    }
    engine_->Step();
    // Any of them, waiting, running, ended; some twice.
    for (int i = 0; i < 16; ++i, ++cancels) {
      const EndReason reason = random_() % 2 == 0 ? EndReason::kCancelled : EndReason::kStop;
      engine_->Cancel(live[random_() % live.size()].first, reason);
    }
    std::erase_if(live, [](const auto& entry) { return SinkOf(entry.second).ended(); });
  }
  for (const auto& [id, request] : live) engine_->Cancel(id, EndReason::kCancelled);
  engine_->Step();
  engine_->CheckInvariants();
  const EngineSnapshot snapshot = engine_->Snapshot();
  EXPECT_EQ(snapshot.running + snapshot.waiting, 0);
  EXPECT_EQ(snapshot.referenced_blocks, 0);
  EXPECT_EQ(snapshot.free_blocks + snapshot.cached_blocks, snapshot.total_blocks);
}

}  // namespace
}  // namespace qanat::engine
