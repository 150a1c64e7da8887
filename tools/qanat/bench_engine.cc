#include "tools/qanat/bench_engine.h"

#include <algorithm>
#include <cstdio>
#include <memory>
#include <vector>

#include "common/base/clock.h"
#include "common/base/status_macros.h"
#include "nlohmann/json.hpp"
#include "tools/qanat/measure.h"
#include "worker/backend/cpu_backend.h"
#include "worker/engine/engine.h"
#include "worker/model/device_model_runner.h"
#include "worker/model/model_loader.h"

namespace qanat::tools {
namespace {

// What a row of the table runs, and which of its times it reports.
struct Row {
  const char* name;
  int streams;
  int prompt;
  int output;
  enum { kPrefill, kDecode, kTotal } rate;
  int repeats = 1;  // of the prompt's first part, which make up the prompt
  bool drafts = false;
};

constexpr Row kRows[] = {
    {"prefill 512", 1, 512, 1, Row::kPrefill},
    {"decode, 1 stream", 1, 16, 128, Row::kDecode},
    {"decode, drafts", 1, 16, 128, Row::kDecode, 1, true},
    {"copying, 1 stream", 1, 384, 128, Row::kDecode, 3, false},
    {"copying, drafts", 1, 384, 128, Row::kDecode, 3, true},
    {"16 x (128 + 64)", 16, 128, 64, Row::kTotal},
};

// Notes when its stream's tokens came.
class StopWatch final : public engine::TokenSink {
 public:
  explicit StopWatch(const Clock& clock) : clock_(clock) {}
  void OnTokens(int32_t first, absl::Span<const TokenId>, absl::Span<const sampling::ScoredToken>) override {
    last_ = clock_.Now();
    if (first == 0) first_ = last_;
  }
  void OnPromptScores(int32_t, absl::Span<const sampling::ScoredToken>) override {}
  void OnEnd(const engine::Outcome& outcome) override {
    ended_ = true;
    outcome_ = outcome;
  }
  Time first() const { return first_; }
  Time last() const { return last_; }
  bool ended() const { return ended_; }
  const engine::Outcome& outcome() const { return outcome_; }

 private:
  const Clock& clock_;
  Time first_, last_;
  bool ended_ = false;
  engine::Outcome outcome_;
};

// A model on this machine's CPUs, ready for engines.
class Bench {
 public:
  static absl::StatusOr<std::unique_ptr<Bench>> Create(const BenchEngineOptions& options) {
    auto bench = std::unique_ptr<Bench>(new Bench);
    bench->engine_options_ = {.block_size = kBlockSize, .num_blocks = kBlocks, .prefix_cache = false};
    engine::EngineOptions& engine = bench->engine_options_;
    QANAT_ASSIGN_OR_RETURN(
        bench->backend_, backend::CreateCpuBackend({.threads = options.threads, .kernels = options.kernels}));
    QANAT_ASSIGN_OR_RETURN(bench->model_, model::LoadModel(options.model, *bench->backend_,
                                                           {.max_tokens = engine.max_batch_tokens,
                                                            .max_logit_rows = engine.max_logit_rows()}));
    engine.context_length = bench->model_.config.context_length;
    const auto format = options.kernels == "reference" ? backend::KvFormat::kF32 : backend::KvFormat::kBF16;
    QANAT_RETURN_IF_ERROR(
        bench->backend_->AllocateKv(model::KvConfigFor(bench->model_.config, kBlockSize, kBlocks, format)));
    bench->runner_ = std::make_unique<model::DeviceModelRunner>(*bench->model_.model, *bench->backend_);
    return bench;
  }

  // Tokens a second of one run of `row`.
  absl::StatusOr<double> Run(const Row& row) {
    engine::EngineMetrics metrics;
    engine::EngineOptions engine_options = engine_options_;
    engine_options.speculation = row.drafts;
    engine::Engine engine(engine_options, hasher_, *runner_, clock_, metrics);
    std::vector<std::shared_ptr<StopWatch>> streams;
    const Time start = clock_.Now();
    for (int i = 0; i < row.streams; ++i) {
      QANAT_ASSIGN_OR_RETURN(streams.emplace_back(),
                             Submit(engine, Prompt(row.prompt / row.repeats, row.repeats), row.output));
    }
    while (engine.Step()) {
    }
    Time last = start;
    for (const auto& stream : streams) {
      if (!stream->ended() || stream->outcome().completion_tokens != row.output) {
        return absl::InternalError("a stream did not run to its end");
      }
      last = std::max(last, stream->last());
    }
    switch (row.rate) {
      case Row::kPrefill:
        return row.prompt / Seconds(streams[0]->first() - start);
      case Row::kDecode:
        return (row.output - 1) / Seconds(streams[0]->last() - streams[0]->first());
      case Row::kTotal:
        return row.streams * (row.prompt + row.output) / Seconds(last - start);
    }
    return absl::InternalError("unknown rate");
  }

  // Four streams decode while a prompt of eight thousand tokens is prefilled.
  struct Gap {
    double worst_ms = 0;  // between two tokens of a stream, while the prompt is on its way
    double chunk_ms = 0;  // the longest step of the same prompt without neighbours
  };
  absl::StatusOr<Gap> MeasureGap() {
    Gap gap;
    for (const int streams : {0, 4}) {
      LongestStep steps;
      engine::Engine engine(engine_options_, hasher_, *runner_, clock_, steps);
      for (int i = 0; i < streams; ++i) QANAT_RETURN_IF_ERROR(Submit(engine, Prompt(16, 1), 500).status());
      // They must decode, and the engine know what steps take.
      for (int i = 0; streams > 0 && i < 100; ++i) engine.Step();
      steps.longest_gap = steps.longest_step = Duration::zero();
      const int context = std::min(8000, engine_options_.context_length - 1);
      QANAT_ASSIGN_OR_RETURN(const std::shared_ptr<StopWatch> prompt, Submit(engine, Prompt(context, 1), 1));
      while (!prompt->ended()) engine.Step();
      (streams == 0 ? gap.chunk_ms : gap.worst_ms) =
          Seconds(streams == 0 ? steps.longest_step : steps.longest_gap) * 1e3;
    }
    return gap;
  }

  std::string numerics() const { return backend_->Numerics(); }

 private:
  static constexpr int kBlockSize = 16;
  static constexpr int kBlocks = 768;  // eight thousand tokens and four streams

  struct LongestStep final : public engine::EngineMetrics {
    void OnStep(const engine::StepStats& stats) override {
      longest_step = std::max(longest_step, stats.plan + stats.launch + stats.device + stats.commit);
    }
    void OnInterToken(Duration gap) override { longest_gap = std::max(longest_gap, gap); }
    Duration longest_step{}, longest_gap{};
  };

  absl::StatusOr<std::shared_ptr<StopWatch>> Submit(engine::Engine& engine, std::vector<TokenId> prompt,
                                                    int max_tokens) {
    const auto stream = std::make_shared<StopWatch>(clock_);
    engine::Request request;
    request.prompt = std::move(prompt);
    request.sampling.temperature = 0;
    request.max_tokens = max_tokens;
    request.sink = stream;
    QANAT_RETURN_IF_ERROR(engine.Submit(std::move(request)).status());
    return stream;
  }

  Bench() : hasher_(hash::kPublicKey, "bench", kBlockSize) {}

  // Ids that no two prompts share in the same order, said `times` times; a linear congruential generator is
  // random enough.
  std::vector<TokenId> Prompt(int length, int times) {
    std::vector<TokenId> part(length);
    for (TokenId& id : part) {
      state_ = state_ * 6364136223846793005u + 1442695040888963407u;
      id = static_cast<TokenId>((state_ >> 33) % model_.config.vocab_size);
    }
    std::vector<TokenId> prompt;
    for (int i = 0; i < times; ++i) prompt.insert(prompt.end(), part.begin(), part.end());
    return prompt;
  }

  RealClock clock_;
  hash::BlockHasher hasher_;
  engine::EngineOptions engine_options_;
  std::unique_ptr<backend::Backend> backend_;
  model::LoadedModel model_;
  std::unique_ptr<model::DeviceModelRunner> runner_;
  uint64_t state_ = 1;
};

}  // namespace

absl::Status RunBenchEngine(const BenchEngineOptions& options) {
  QANAT_ASSIGN_OR_RETURN(const std::unique_ptr<Bench> bench, Bench::Create(options));
  const double load = LoadAverage();
  const int64_t stolen = StolenJiffies();
  for (const Row& row : kRows) QANAT_RETURN_IF_ERROR(bench->Run(row).status());  // warms caches and pages

  std::vector<std::vector<double>> rates(std::size(kRows));
  for (int round = 0; round < options.rounds; ++round) {
    for (size_t i = 0; i < std::size(kRows); ++i) {
      QANAT_ASSIGN_OR_RETURN(const double rate, bench->Run(kRows[i]));
      rates[i].push_back(rate);
    }
  }

  QANAT_ASSIGN_OR_RETURN(const Bench::Gap gap, bench->MeasureGap());

  nlohmann::json report = {{"numerics", bench->numerics()},
                           {"rounds", options.rounds},
                           {"load_average", load},
                           {"stolen_jiffies", StolenJiffies() - stolen},
                           {"rows", nlohmann::json::array()},
                           {"decodes_beside_a_prompt_of_8000",
                            {{"worst_gap_ms", gap.worst_ms}, {"longest_chunk_step_ms", gap.chunk_ms}}}};
  for (size_t i = 0; i < std::size(kRows); ++i) {
    const auto [low, high] = std::minmax_element(rates[i].begin(), rates[i].end());
    report["rows"].push_back({{"name", kRows[i].name},
                              {"streams", kRows[i].streams},
                              {"prompt_tokens", kRows[i].prompt},
                              {"output_tokens", kRows[i].output},
                              {"tokens_per_second", Median(rates[i])},
                              {"min", *low},
                              {"max", *high}});
  }
  if (options.json) {
    std::printf("%s\n", report.dump(2).c_str());
    return absl::OkStatus();
  }
  std::printf("%-18s %12s %12s %12s   tokens/s, %d rounds, %s, load %.2f\n", "", "median", "min", "max",
              options.rounds, bench->numerics().c_str(), load);
  for (const auto& row : report["rows"]) {
    std::printf("%-18s %12.1f %12.1f %12.1f\n", row["name"].get<std::string>().c_str(),
                row["tokens_per_second"].get<double>(), row["min"].get<double>(), row["max"].get<double>());
  }
  std::printf(
      "4 decodes beside a prompt of 8,000: worst gap %.0f ms, longest step of a chunk alone %.0f ms\n",
      gap.worst_ms, gap.chunk_ms);
  return absl::OkStatus();
}

}  // namespace qanat::tools
