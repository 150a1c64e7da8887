#include "tools/qanat/bench_index.h"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <memory>
#include <random>
#include <string>
#include <thread>

#include "common/base/clock.h"
#include "common/base/thread_cpu_time.h"
#include "nlohmann/json.hpp"
#include "router/index/index.h"
#include "router/index/pending_credits.h"
#include "router/routing/prefix_cost.h"
#include "tools/qanat/measure.h"

namespace qanat::tools {
namespace {

constexpr int kBlockSize = 16;
constexpr int kVocabulary = 50'000;
// Blocks that a worker tells of at once.
constexpr size_t kBatch = 512;
constexpr StepModel kStepModel{.fixed_us = 1000,
                               .sequence_us = 50,
                               .weights_us = 10'000,
                               .token_us = 100,
                               .context_us = 0.05,
                               .attention_us = 0.001};

double Microseconds(Duration duration) { return Seconds(duration) * 1e6; }

// A cluster of workers whose caches hold beginnings of prompts of one length.
class Bench {
 public:
  Bench(const BenchIndexOptions& options, int tokens) : hasher_(hash::kPublicKey, "bench", kBlockSize) {
    model_->id = "bench";
    model_->block_size = kBlockSize;
    auto workers = std::make_shared<std::vector<router::Worker>>(options.workers);
    for (int i = 0; i < options.workers; ++i) {
      router::Worker& worker = (*workers)[i];
      worker.address = "10.0.0.1:" + std::to_string(i + 1);
      worker.state = router::WorkerState::kReady;
      worker.model = model_;
      worker.total_blocks = options.blocks;
      worker.max_requests = 1024;
      worker.holder = index_.Open(options.blocks);
      router::WorkerLoad load;
      load.free_blocks = options.blocks;
      load.step_model = kStepModel;
      snapshot_.loads.push_back(load);
      holders_.push_back({*worker.holder, options.blocks, {}});
    }
    snapshot_.workers = std::move(workers);
    while (std::any_of(holders_.begin(), holders_.end(), [](const Holder& h) { return h.room > 0; })) {
      AddPrompt(tokens);
    }
  }

  double BytesPerBlock() const {
    const router::IndexStats stats = index_.Stats();
    return static_cast<double>(stats.bytes) / static_cast<double>(stats.distinct_blocks);
  }
  int64_t DistinctBlocks() const { return index_.Stats().distinct_blocks; }

  // Updates a second of the calling thread, over `count` of them.
  double UpdateRate(int64_t count) {
    const Duration start = ThreadCpuTime();
    int64_t done = 0;
    while (done < count) done += Churn();
    return static_cast<double>(done) / Seconds(ThreadCpuTime() - start);
  }

  struct Times {
    std::vector<double> wall_us;
    std::vector<double> cpu_us;
    std::vector<double> hash_us;   // of wall_us, until the prompt is hashed
    std::vector<double> hit_part;  // of the prompt, that the chosen worker has
  };
  // Of `count` decisions, while another thread updates.
  Times Decide(int count) {
    std::atomic<bool> done{false};
    std::thread writer([&] {
      while (!done) Churn();
    });
    Times times;
    std::mt19937 random(2);
    for (int i = 0; i < count; ++i) DecideOnce(prompts_[random() % prompts_.size()].tokens, times);
    done = true;
    writer.join();
    return times;
  }

 private:
  struct Prompt {
    std::vector<TokenId> tokens;
    std::vector<hash::BlockHash> hashes;
  };
  struct Holder {
    router::HolderId id;
    int64_t room;                // blocks that it may hold yet
    std::vector<size_t> depths;  // of each prompt
  };

  // A prompt of which each worker that has room holds a beginning.
  void AddPrompt(int tokens) {
    Prompt prompt;
    for (int i = 0; i < tokens; ++i) prompt.tokens.push_back(static_cast<TokenId>(random_() % kVocabulary));
    prompt.hashes = hasher_.HashPrompt({}, prompt.tokens);
    const auto blocks = absl::MakeSpan(prompt.hashes);
    for (Holder& holder : holders_) {
      const size_t wanted = 1 + random_() % blocks.size();
      const size_t depth = std::min(wanted, static_cast<size_t>(holder.room));
      index_.Add(holder.id, blocks.first(depth));
      holder.room -= static_cast<int64_t>(depth);
      holder.depths.push_back(depth);
    }
    prompts_.push_back(std::move(prompt));
  }

  // A worker gives up an end of a prompt and takes it again. Returns the number of updates.
  int64_t Churn() {
    Holder& holder = holders_[random_() % holders_.size()];
    const size_t chosen = random_() % prompts_.size();
    const auto held = absl::MakeSpan(prompts_[chosen].hashes).first(holder.depths[chosen]);
    const auto end = held.last(std::min(held.size(), kBatch));
    const size_t changed = index_.Remove(holder.id, std::vector<hash::BlockHash>(end.rbegin(), end.rend()));
    return static_cast<int64_t>(changed + index_.Add(holder.id, end));
  }

  void DecideOnce(const std::vector<TokenId>& tokens, Times& times) {
    const Duration cpu = ThreadCpuTime();
    const Time start = clock_.Now();
    const std::vector<hash::BlockHash> hashes = hasher_.HashPrompt({}, tokens);
    const Time hashed = clock_.Now();
    router::RouteRequest request;
    request.model = model_.get();
    request.hashes = hashes;
    request.prompt_tokens = static_cast<int32_t>(tokens.size());
    request.max_new_tokens = 256;
    request.index = &index_;
    request.pending = &pending_;
    const router::Decision decision = policy_.Pick(request, snapshot_);
    times.wall_us.push_back(Microseconds(clock_.Now() - start));
    times.cpu_us.push_back(Microseconds(ThreadCpuTime() - cpu));
    times.hash_us.push_back(Microseconds(hashed - start));
    times.hit_part.push_back(std::get<router::Route>(decision).hit_tokens /
                             static_cast<double>(tokens.size()));
  }

  const RealClock clock_;
  const hash::BlockHasher hasher_;
  const std::shared_ptr<router::Model> model_ = std::make_shared<router::Model>();
  const router::PrefixCost policy_;
  router::Index index_;
  router::PendingCredits pending_;
  router::ClusterSnapshot snapshot_;
  std::vector<Holder> holders_;
  std::vector<Prompt> prompts_;
  std::mt19937 random_{1};
};

nlohmann::json Measure(const BenchIndexOptions& options, int tokens) {
  Bench bench(options, tokens);
  bench.UpdateRate(100'000);  // warms caches and pages
  const double rate = bench.UpdateRate(2'000'000);
  const double bytes = bench.BytesPerBlock();
  const int64_t distinct = bench.DistinctBlocks();
  bench.Decide(100);
  const Bench::Times times = bench.Decide(2000);
  return {{"prompt_tokens", tokens},
          {"distinct_blocks", distinct},
          {"bytes_per_block", bytes},
          {"updates_per_second", rate},
          {"hit_part_p50", Median(times.hit_part)},
          {"decision_us",
           {{"p50", Median(times.wall_us)},
            {"p99", Quantile(times.wall_us, 0.99)},
            {"cpu_p50", Median(times.cpu_us)},
            {"cpu_p99", Quantile(times.cpu_us, 0.99)},
            {"hash_p50", Median(times.hash_us)}}}};
}

}  // namespace

absl::Status RunBenchIndex(const BenchIndexOptions& options) {
  const double load = LoadAverage();
  const int64_t stolen = StolenJiffies();
  nlohmann::json report = {{"workers", options.workers},
                           {"blocks", options.blocks},
                           {"load_average", load},
                           {"rows", nlohmann::json::array()}};
  for (int tokens : options.tokens) report["rows"].push_back(Measure(options, tokens));
  report["stolen_jiffies"] = StolenJiffies() - stolen;
  if (options.json) {
    std::printf("%s\n", report.dump(2).c_str());
    return absl::OkStatus();
  }
  std::printf("%d workers of %d blocks, load %.2f\n", options.workers, options.blocks, load);
  std::printf("%8s %10s %8s %12s %10s %10s %10s %10s %10s\n", "tokens", "distinct", "B/block", "M updates/s",
              "p50 us", "p99 us", "CPU p50", "CPU p99", "hash p50");
  for (const auto& row : report["rows"]) {
    const auto& time = row["decision_us"];
    std::printf("%8d %10ld %8.1f %12.2f %10.1f %10.1f %10.1f %10.1f %10.1f\n",
                row["prompt_tokens"].get<int>(), row["distinct_blocks"].get<long>(),
                row["bytes_per_block"].get<double>(), row["updates_per_second"].get<double>() / 1e6,
                time["p50"].get<double>(), time["p99"].get<double>(), time["cpu_p50"].get<double>(),
                time["cpu_p99"].get<double>(), time["hash_p50"].get<double>());
  }
  return absl::OkStatus();
}

}  // namespace qanat::tools
