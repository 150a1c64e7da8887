// What the engine spends on a step beside the model: planning, blocks, prefixes, commit.
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "benchmark/benchmark.h"
#include "common/base/clock.h"
#include "common/hash/block_hash.h"
#include "worker/engine/engine.h"
#include "worker/engine/scheduler.h"
#include "worker/engine/step_model_fitter.h"
#include "worker/kv/kv_manager.h"

namespace qanat::engine {
namespace {

// `num_seqs` sequences decode; whoever comes to the end of its 256 tokens is replaced by a newcomer with a
// prompt of 128 tokens, half of it shared with all.
class Load {
 public:
  explicit Load(int num_seqs) : options_(MakeOptions(num_seqs)) {
    for (int i = 0; i < num_seqs; ++i) Arrive();
    // All admitted, and at different lengths.
    for (int i = 0; i < 256; ++i) Step();
  }

  size_t Step() {
    scheduler_.Launch(scheduler_.Plan(now_), false);
    const StepPlan plan = scheduler_.Collect();
    for (const PlannedRow& row : plan.rows) {
      Sequence& sequence = *row.sequence;
      scheduler_.Commit(row);
      if (!row.draws ||
          !sequence.Append(static_cast<TokenId>(ToInt(sequence.id()) % 1000), now_).has_value()) {
        continue;
      }
      scheduler_.Remove(sequence);
      sequence.End(EndReason::kLength, absl::OkStatus(), now_);
      ended_.push_back(ToInt(sequence.id()));
    }
    for (const uint64_t id : ended_) {
      sequences_[id].reset();
      Arrive();
    }
    ended_.clear();
    return plan.rows.size();
  }

 private:
  static EngineOptions MakeOptions(int num_seqs) {
    EngineOptions options;
    options.context_length = 8192;
    options.num_blocks = num_seqs * 32;
    options.max_seqs = num_seqs;
    options.max_batch_tokens = 4 * num_seqs + 512;
    return options;
  }
  void Arrive() {
    const uint64_t id = sequences_.size();
    Request request;
    for (TokenId i = 0; i < 128; ++i) {
      request.prompt.push_back(i < 64 ? i : static_cast<TokenId>(id * 131 % 40000) + i);
    }
    request.max_tokens = 128 + static_cast<int32_t>(id * 37 % 128);
    sequences_.push_back(std::make_unique<Sequence>(SequenceId{id}, std::move(request), now_, options_,
                                                    kv_.NewTable(hash::Namespace{})));
    scheduler_.Add(*sequences_.back());
  }

  const EngineOptions options_;
  const Time now_{};
  kv::KvManager kv_{options_.num_blocks, true, hash::BlockHasher(hash::kPublicKey, "model", 16)};
  Scheduler scheduler_{options_, kv_};
  std::vector<std::unique_ptr<Sequence>> sequences_;  // by id
  std::vector<uint64_t> ended_;
};

void BM_PlanAndCommit(benchmark::State& state) {
  Load load(static_cast<int>(state.range(0)));
  size_t rows = 0;
  for (auto _ : state) rows += load.Step();
  state.counters["rows"] = static_cast<double>(rows) / static_cast<double>(state.iterations());
}
BENCHMARK(BM_PlanAndCommit)->Arg(16)->Arg(64)->Arg(256)->Unit(benchmark::kMicrosecond);

// Draws the same token for everybody and takes no time.
class InstantRunner final : public ModelRunner {
 public:
  Handle Launch(const ModelBatch& batch) override {
    output_.sequences.clear();
    for (const BatchSequence& row : batch.sequences) {
      output_.sequences.push_back(row.sample ? SequenceOutput{SequenceOutput::Kind::kToken, 7}
                                             : SequenceOutput{});
    }
    return 0;
  }
  StepOutput Collect(Handle) override { return output_; }

 private:
  StepOutput output_;
};

class SilentSink final : public TokenSink {
 public:
  void OnTokens(int32_t, absl::Span<const TokenId>, absl::Span<const sampling::ScoredToken>) override {}
  void OnPromptScores(int32_t, absl::Span<const sampling::ScoredToken>) override {}
  void OnEnd(const Outcome&) override {}
};

// A whole step of the engine, for as many decodes: the batch, the snapshot and the sinks, too.
void BM_EngineStep(benchmark::State& state) {
  EngineOptions options;
  options.max_seqs = static_cast<int32_t>(state.range(0));
  options.max_batch_tokens = options.max_seqs + 512;
  options.queue_requests = options.max_seqs;
  options.context_length = 8192;
  options.num_blocks = options.max_seqs * 300;
  InstantRunner runner;
  const RealClock clock;
  EngineMetrics metrics;
  Engine engine(options, hash::BlockHasher(hash::kPublicKey, "model", options.block_size), runner, clock,
                metrics);
  TokenId unlike = 0;
  const auto top_up = [&] {
    const EngineSnapshot now = engine.Snapshot();
    for (int32_t i = now.running + now.waiting; i < options.max_seqs; ++i) {
      Request request;
      request.prompt.assign(64, ++unlike);
      request.max_tokens = 4096;
      request.sink = std::make_shared<SilentSink>();
      benchmark::DoNotOptimize(engine.Submit(std::move(request)));
    }
  };
  top_up();
  while (engine.Snapshot().running < options.max_seqs) engine.Step();
  for (auto _ : state) {
    engine.Step();
    top_up();
  }
}
BENCHMARK(BM_EngineStep)->Arg(16)->Arg(64)->Arg(256)->Unit(benchmark::kMicrosecond);

// What a step pays for the step model, with samples of all sizes and contexts.
void BM_FitStepModel(benchmark::State& state) {
  constexpr StepModel kTruth{2500, 150, 9000, 220, 0.6, 0.03};
  std::mt19937 random(1);
  std::vector<std::pair<StepShape, Duration>> steps(1 << 14);
  for (auto& [shape, took] : steps) {
    shape.sequences = 1 + random() % 64;
    shape.tokens = shape.sequences + (random() % 4 == 0 ? 1 << random() % 10 : 0);
    shape.context_tokens = shape.sequences * (1 + random() % 4000);
    shape.chunk_attention = (shape.tokens - shape.sequences) * (random() % 4000);
    took = Duration(static_cast<int64_t>(kTruth.PredictUs(shape) * (950 + random() % 100)));
  }
  StepModelFitter fitter;
  size_t i = 0;
  for (auto _ : state) {
    const auto& [shape, took] = steps[i++ % steps.size()];
    fitter.Add(shape, took);
  }
  benchmark::DoNotOptimize(fitter.model());
}
BENCHMARK(BM_FitStepModel)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace qanat::engine
