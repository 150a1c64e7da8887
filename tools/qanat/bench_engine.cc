#include "tools/qanat/bench_engine.h"

#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
#include "common/base/status_macros.h"
#include "common/base/version.h"
#include "nlohmann/json.hpp"
#include "tools/qanat/measure.h"
#include "tools/qanat/random_tokens.h"
#include "worker/engine/engine.h"
#include "worker/engine/scheduler.h"
#include "worker/engine/step_log.h"

namespace qanat::tools {
namespace {

bool Wants(const BenchEngineOptions& options, const char* row) {
  return std::find(options.rows.begin(), options.rows.end(), row) != options.rows.end();
}

// What a row of the table runs, and which of its times it reports.
struct Row {
  const char* kind;
  std::string name;
  int streams;
  int prompt;  // tokens of its own
  int output;
  enum { kPrefill, kDecode, kTotal } rate;
  int repeats = 1;  // of the prompt's first part, which make up the prompt
  bool drafts = false;
  bool sampled = false;  // at temperature 1; else the likeliest token is taken
  int groups = 0;        // that the streams are dealt to, ...
  int shared = 0;        // ... and the tokens that the prompts of a group begin with
};

std::vector<Row> MakeRows(const BenchEngineOptions& options) {
  std::vector<Row> rows = {{"prefill", "prefill 512", 1, 512, 1, Row::kPrefill}};
  for (const int streams : options.streams) {
    rows.push_back({"decode", absl::StrCat("decode, ", streams, streams == 1 ? " stream" : " streams"),
                    streams, 16, 128, Row::kDecode});
  }
  rows.push_back({"drafts", "decode, drafts", 1, 16, 128, Row::kDecode, 1, true});
  for (const int streams : {1, engine::kMaxDraftingSequences}) {
    const std::string name = absl::StrCat("sampled, ", streams);
    rows.push_back({"drafts", name, streams, 16, 128, Row::kDecode, 1, false, true});
    rows.push_back({"drafts", name + ", drafts", streams, 16, 128, Row::kDecode, 1, true, true});
  }
  rows.push_back({"drafts", "copying, 1 stream", 1, 384, 128, Row::kDecode, 3, false});
  rows.push_back({"drafts", "copying, drafts", 1, 384, 128, Row::kDecode, 3, true});
  for (const int streams : options.streams) {
    rows.push_back({"mix", absl::StrCat(streams, " x (128 + 64)"), streams, 128, 64, Row::kTotal});
  }
  rows.push_back({"shared", "8 groups of 512", 64, 32, 32, Row::kTotal, 1, false, false, 8, 512});
  const auto unwanted = [&](const Row& row) { return !Wants(options, row.kind); };
  rows.erase(std::remove_if(rows.begin(), rows.end(), unwanted), rows.end());
  return rows;
}

// Notes in which step its stream's tokens came.
class Stream final : public engine::TokenSink {
 public:
  explicit Stream(const size_t& step) : step_(step) {}
  void OnTokens(int32_t, absl::Span<const TokenId> tokens, absl::Span<const sampling::ScoredToken>) override {
    steps_.insert(steps_.end(), tokens.size(), step_);
  }
  void OnPromptScores(int32_t, absl::Span<const sampling::ScoredToken>) override {}
  void OnEnd(const engine::Outcome& outcome) override {
    ended_ = true;
    outcome_ = outcome;
  }
  // Of each token.
  const std::vector<size_t>& steps() const { return steps_; }
  bool ended() const { return ended_; }
  const engine::Outcome& outcome() const { return outcome_; }

 private:
  const size_t& step_;  // the present one
  std::vector<size_t> steps_;
  bool ended_ = false;
  engine::Outcome outcome_;
};

using Streams = std::vector<std::shared_ptr<Stream>>;

// `ends`: when each step ended, which is when its tokens were there.
double RateOf(const Row& row, const Streams& streams, Time start, const std::vector<Time>& ends) {
  size_t all_began = 0;
  for (const auto& stream : streams) all_began = std::max(all_began, stream->steps().front());
  const auto after = [&](size_t step) { return step > all_began; };
  switch (row.rate) {
    case Row::kPrefill:
      return row.prompt / Seconds(ends[all_began] - start);
    case Row::kDecode: {
      int64_t tokens = 0;
      for (const auto& stream : streams) {
        tokens += std::count_if(stream->steps().begin(), stream->steps().end(), after);
      }
      return static_cast<double>(tokens) / Seconds(ends.back() - ends[all_began]);
    }
    case Row::kTotal:
      return row.streams * (row.shared + row.prompt + row.output) / Seconds(ends.back() - start);
  }
  return 0;
}

// Runs rows on a local model.
class Bench {
 public:
  static absl::StatusOr<std::unique_ptr<Bench>> Create(const BenchEngineOptions& options) {
    auto bench = std::unique_ptr<Bench>(new Bench);
    QANAT_ASSIGN_OR_RETURN(bench->local_, LoadLocalModel(options.local, {.block_size = kBlockSize,
                                                                         .num_blocks = kBlocks,
                                                                         .prefix_cache = false}));
    if (!options.step_log.empty()) {
      QANAT_ASSIGN_OR_RETURN(bench->step_log_, engine::StepLog::Create(options.step_log, bench->ignored_));
    }
    return bench;
  }

  // Tokens a second of one run of `row`. Rows of one shape have the same prompts in the same round.
  absl::StatusOr<double> Run(const Row& row, int round) {
    round_ = round;
    tokens_ = RandomTokens(static_cast<uint64_t>(round), local_->model.config.vocab_size);
    engine::EngineMetrics& metrics = step_log_ == nullptr ? ignored_ : *step_log_;
    engine::EngineOptions engine_options = local_->engine;
    engine_options.speculation = row.drafts;
    engine_options.prefix_cache = row.groups > 0;
    engine::Engine engine(engine_options, hasher_, *local_->runner, clock_, metrics);
    std::vector<std::vector<TokenId>> prompts;
    for (int i = 0; i < row.groups; ++i) prompts.push_back(Prompt(row.shared, 1));
    Streams streams;
    const Time start = clock_.Now();
    for (int i = 0; i < row.streams; ++i) {
      std::vector<TokenId> prompt;
      if (row.groups > 0) prompt = prompts[i % row.groups];
      const std::vector<TokenId> own = Prompt(row.prompt / row.repeats, row.repeats);
      prompt.insert(prompt.end(), own.begin(), own.end());
      QANAT_ASSIGN_OR_RETURN(streams.emplace_back(),
                             Submit(engine, std::move(prompt), row.output, row.sampled));
    }
    std::vector<Time> ends;
    for (step_ = 0; engine.Step(); ++step_) ends.push_back(clock_.Now());
    for (const auto& stream : streams) {
      if (!stream->ended() || stream->outcome().completion_tokens != row.output) {
        return absl::InternalError("a stream did not run to its end");
      }
    }
    return RateOf(row, streams, start, ends);
  }

  // Four streams decode while a prompt of eight thousand tokens, or what the context takes, is prefilled.
  struct Gap {
    int prompt_tokens = 0;
    double worst_ms = 0;  // between two tokens of a stream, while the prompt is on its way
    double chunk_ms = 0;  // the longest step of the same prompt without neighbours
  };
  absl::StatusOr<Gap> MeasureGap() {
    Gap gap;
    gap.prompt_tokens = std::min(8000, local_->engine.context_length - 1);
    for (const int streams : {0, 4}) {
      LongestStep steps;
      engine::Engine engine(local_->engine, hasher_, *local_->runner, clock_, steps);
      for (int i = 0; i < streams; ++i) QANAT_RETURN_IF_ERROR(Submit(engine, Prompt(16, 1), 500).status());
      // They must decode, and the engine know what steps take.
      for (int i = 0; streams > 0 && i < 100; ++i) engine.Step();
      steps.longest_gap = steps.longest_step = Duration::zero();
      QANAT_ASSIGN_OR_RETURN(const std::shared_ptr<Stream> prompt,
                             Submit(engine, Prompt(gap.prompt_tokens, 1), 1));
      while (!prompt->ended()) engine.Step();
      (streams == 0 ? gap.chunk_ms : gap.worst_ms) =
          Seconds(streams == 0 ? steps.longest_step : steps.longest_gap) * 1e3;
    }
    return gap;
  }

  // What is measured.
  nlohmann::json Subject() const {
    return {{"version", absl::StrCat(std::string(Version()), " (", std::string(Revision()), ")")},
            {"model", local_->name},
            {"model_fingerprint", local_->model.fingerprint},
            {"threads", local_->threads},
            {"numerics", local_->backend->Numerics()}};
  }

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

  absl::StatusOr<std::shared_ptr<Stream>> Submit(engine::Engine& engine, std::vector<TokenId> prompt,
                                                 int max_tokens, bool sampled = false) {
    const auto stream = std::make_shared<Stream>(step_);
    engine::Request request;
    request.prompt = std::move(prompt);
    request.sampling.temperature = sampled ? 1 : 0;
    request.seed = static_cast<uint64_t>(round_);
    request.max_tokens = max_tokens;
    request.sink = stream;
    QANAT_RETURN_IF_ERROR(engine.Submit(std::move(request)).status());
    return stream;
  }

  Bench() : hasher_(hash::kPublicKey, "bench", kBlockSize) {}

  // Random ids, said `times` times.
  std::vector<TokenId> Prompt(int length, int times) {
    const std::vector<TokenId> part = tokens_.Take(length);
    std::vector<TokenId> prompt;
    for (int i = 0; i < times; ++i) prompt.insert(prompt.end(), part.begin(), part.end());
    return prompt;
  }

  RealClock clock_;
  size_t step_ = 0;  // of the engine that runs
  int round_ = 0;
  hash::BlockHasher hasher_;
  std::unique_ptr<LocalModel> local_;
  RandomTokens tokens_{1, 1};
  engine::EngineMetrics ignored_;
  std::unique_ptr<engine::StepLog> step_log_;  // null: none
};

absl::StatusOr<std::vector<std::vector<double>>> RunRows(Bench& bench, const std::vector<Row>& rows,
                                                         int rounds) {
  for (const Row& row : rows) QANAT_RETURN_IF_ERROR(bench.Run(row, 0).status());  // warms caches and pages
  std::vector<std::vector<double>> rates(rows.size());
  for (int round = 0; round < rounds; ++round) {
    for (size_t i = 0; i < rows.size(); ++i) {
      QANAT_ASSIGN_OR_RETURN(const double rate, bench.Run(rows[i], round + 1));
      rates[i].push_back(rate);
    }
  }
  return rates;
}

nlohmann::json ToJson(const Row& row, const std::vector<double>& rates) {
  const auto [low, high] = std::minmax_element(rates.begin(), rates.end());
  return {{"kind", row.kind},
          {"name", row.name},
          {"streams", row.streams},
          {"prompt_tokens", row.shared + row.prompt},
          {"output_tokens", row.output},
          {"tokens_per_second", Median(rates)},
          {"min", *low},
          {"max", *high}};
}

void Print(const nlohmann::json& report) {
  std::printf("%s, %d threads, %s, qanat %s\n", report["model"].get<std::string>().c_str(),
              report["threads"].get<int>(), report["numerics"].get<std::string>().c_str(),
              report["version"].get<std::string>().c_str());
  std::printf("%-18s %12s %12s %12s   tokens/s, %d rounds, load %.2f\n", "", "median", "min", "max",
              report["rounds"].get<int>(), report["load_average"].get<double>());
  for (const auto& row : report["rows"]) {
    std::printf("%-18s %12.1f %12.1f %12.1f\n", row["name"].get<std::string>().c_str(),
                row["tokens_per_second"].get<double>(), row["min"].get<double>(), row["max"].get<double>());
  }
  const auto gap = report.find("decodes_beside_a_prompt");
  if (gap == report.end()) return;
  std::printf(
      "4 decodes beside a prompt of %d tokens: worst gap %.0f ms, longest step of a chunk alone %.0f ms\n",
      (*gap)["prompt_tokens"].get<int>(), (*gap)["worst_gap_ms"].get<double>(),
      (*gap)["longest_chunk_step_ms"].get<double>());
}

}  // namespace

const std::vector<std::string>& BenchEngineRows() {
  static const auto& rows =
      *new std::vector<std::string>{"prefill", "decode", "drafts", "mix", "shared", "gap"};
  return rows;
}

absl::Status RunBenchEngine(const BenchEngineOptions& options) {
  QANAT_ASSIGN_OR_RETURN(const std::unique_ptr<Bench> bench, Bench::Create(options));
  const double load = LoadAverage();
  const int64_t stolen = StolenJiffies();
  const std::vector<Row> rows = MakeRows(options);
  QANAT_ASSIGN_OR_RETURN(const auto rates, RunRows(*bench, rows, options.rounds));

  nlohmann::json report = bench->Subject();
  report["rounds"] = options.rounds;
  report["load_average"] = load;
  report["rows"] = nlohmann::json::array();
  for (size_t i = 0; i < rows.size(); ++i) report["rows"].push_back(ToJson(rows[i], rates[i]));
  if (Wants(options, "gap")) {
    QANAT_ASSIGN_OR_RETURN(const Bench::Gap gap, bench->MeasureGap());
    report["decodes_beside_a_prompt"] = {{"prompt_tokens", gap.prompt_tokens},
                                         {"worst_gap_ms", gap.worst_ms},
                                         {"longest_chunk_step_ms", gap.chunk_ms}};
  }
  report["stolen_jiffies"] = StolenJiffies() - stolen;
  if (options.json) {
    std::printf("%s\n", report.dump(2).c_str());
  } else {
    Print(report);
  }
  return absl::OkStatus();
}

}  // namespace qanat::tools
