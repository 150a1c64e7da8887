// bit_identity [--requests N] [--stride S]: what a request gets never depends on how it is served. Each
// request runs alone, then in every other way that an engine has of running it, and gives the same ids and
// log-probabilities each time:
//
//   in batches of 32; in chunks of 1, 7, 64 and 512; with a cold cache, a warm one and none; from a pool of
//   20 blocks; in static batches, on runs of neighbouring blocks; on one thread and on two; with drafts;
//   broken off and computed again from every S-th position of its output.
//
// Exit status 0 when all is equal.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
#include "nlohmann/json.hpp"
#include "tests/fakes/recording_sink.h"
#include "worker/backend/cpu_backend.h"
#include "worker/engine/engine.h"
#include "worker/model/device_model_runner.h"
#include "worker/model/model_loader.h"

namespace qanat::engine {
namespace {

constexpr int kMaxPrompt = 96;
constexpr int kOutput = 24;
constexpr int kBlockSize = 16;
constexpr int kBigPool = 512;
constexpr int kSmallPool = 20;
constexpr int kBatch = 32;
constexpr int kSeats = 64;

[[noreturn]] void Fail(const std::string& why) {
  std::fprintf(stderr, "bit_identity: %s\n", why.c_str());
  std::exit(1);
}

// Takes tokens until it is told to stop.
class Sink final : public fakes::RecordingSink {
 public:
  explicit Sink(int32_t room) : room_(room) {}
  int32_t Room() const override { return room_ - static_cast<int32_t>(tokens().size()); }
  void OnPaused() override { paused_ = true; }
  // True: it was paused.
  bool Widen() {
    room_ = kOutput;
    return std::exchange(paused_, false);
  }

 private:
  int32_t room_;
  bool paused_ = false;
};

// The model on some threads.
class Device {
 public:
  explicit Device(int threads) {
    const char* path = std::getenv("QANAT_MODEL");
    if (path == nullptr) Fail("QANAT_MODEL names no model file");
    auto backend = backend::CreateCpuBackend({.threads = threads});
    if (!backend.ok()) Fail(backend.status().ToString());
    backend_ = *std::move(backend);
    auto model = model::LoadModel(path, *backend_,
                                  {.max_tokens = 512, .max_logit_rows = EngineOptions().max_logit_rows()});
    if (!model.ok()) Fail(model.status().ToString());
    model_ = *std::move(model);
    const auto kv =
        model::KvConfigFor(model_.config, kBlockSize, kBigPool + kSeats, backend::KvFormat::kBF16);
    if (const absl::Status status = backend_->AllocateKv(kv); !status.ok()) Fail(status.ToString());
    runner_ = std::make_unique<model::DeviceModelRunner>(*model_.model, *backend_);
  }

  ModelRunner& runner() { return *runner_; }
  const model::ModelConfig& config() const { return model_.config; }

 private:
  std::unique_ptr<backend::Backend> backend_;
  model::LoadedModel model_;
  std::unique_ptr<model::DeviceModelRunner> runner_;
};

// Real prompts, of which every fourth begins like others, greedy and drawn.
std::vector<Request> MakeRequests(int count) {
  std::ifstream file(QANAT_SOURCE_DIR "/tests/golden/perplexity.jsonl");
  std::vector<TokenId> text;
  for (std::string line; std::getline(file, line);) {
    for (const TokenId id : nlohmann::json::parse(line).at("ids").get<std::vector<TokenId>>())
      text.push_back(id);
  }
  if (text.size() < 1000) Fail("tests/golden/perplexity.jsonl is not there, or too short");
  std::vector<Request> requests(count);
  for (int i = 0; i < count; ++i) {
    Request& request = requests[i];
    const size_t length = 1 + static_cast<size_t>(i * 37) % kMaxPrompt;
    const size_t first = i % 4 == 0 ? 0 : static_cast<size_t>(i * 131) % (text.size() - kMaxPrompt);
    request.prompt.assign(text.begin() + static_cast<std::ptrdiff_t>(first),
                          text.begin() + static_cast<std::ptrdiff_t>(first + length));
    request.seed = 1000 + static_cast<uint64_t>(i);
    request.sampling.temperature = i % 3 == 0 ? 0.0f : 0.5f + 0.1f * static_cast<float>(i % 10);
    if (i % 5 == 1) request.sampling.top_k = 40;
    if (i % 5 == 2) request.sampling.top_p = 0.9f;
    if (i % 5 == 3) request.sampling.min_p = 0.05f;
    request.max_tokens = kOutput;
    request.logprobs = 3;
  }
  return requests;
}

// How to run requests.
struct Way {
  std::string name;
  int chunk_tokens = 256;
  bool prefix_cache = false;
  int num_blocks = kBigPool;
  int batch = kBatch;  // submitted together
  int passes = 1;      // over all requests, in one engine
  int break_at = 0;    // tokens of output after which each is broken off, to be computed again; 0: never
  bool speculation = false;
  Batching batching = Batching::kContinuous;
  kv::Layout kv_layout = kv::Layout::kPaged;
};

struct Answer {
  std::vector<TokenId> tokens;
  std::vector<sampling::ScoredToken> scores;

  bool operator==(const Answer&) const = default;
};
using Answers = std::vector<Answer>;

// What it takes to see that a way was really gone.
struct Seen final : public EngineMetrics {
  void OnStep(const StepStats& stats) override {
    preemptions += stats.preemptions;
    hit_tokens += stats.hit_tokens;
    prefilled += stats.prefill_tokens;
    right += stats.accepted_drafts;
    wrong += stats.rejected_drafts;
  }
  int64_t preemptions = 0, hit_tokens = 0, prefilled = 0, right = 0, wrong = 0;
};

Answers RunBatch(Engine& engine, const std::vector<Request>& requests, size_t begin, const Way& way) {
  const size_t end = std::min(begin + static_cast<size_t>(way.batch), requests.size());
  std::vector<std::shared_ptr<Sink>> sinks;
  std::vector<SequenceId> ids;
  for (size_t i = begin; i < end; ++i) {
    Request request = requests[i];
    sinks.push_back(std::make_shared<Sink>(way.break_at > 0 ? way.break_at : kOutput));
    request.sink = sinks.back();
    const auto accepted = engine.Submit(std::move(request));
    if (!accepted.ok()) Fail(accepted.status().ToString());
    ids.push_back(accepted->id);
  }
  for (bool more = true; more;) {
    more = engine.Step();
    if (more) continue;
    for (size_t i = 0; i < sinks.size(); ++i) {
      if (!sinks[i]->Widen()) continue;
      engine.Resume(ids[i]);
      more = true;
    }
  }
  Answers answers;
  for (const auto& sink : sinks) {
    if (!sink->ended() || !sink->outcome().status.ok())
      Fail(absl::StrCat(way.name, ": a request did not run to its end"));
    answers.push_back({sink->tokens(), sink->scores()});
  }
  return answers;
}

Answers RunAll(Device& device, const std::vector<Request>& requests, const Way& way, Seen& seen) {
  EngineOptions options;
  options.context_length = device.config().context_length;
  options.block_size = kBlockSize;
  options.num_blocks = way.num_blocks;
  options.chunk_tokens = way.chunk_tokens;
  options.prefix_cache = way.prefix_cache;
  options.speculation = way.speculation;
  options.batching = way.batching;
  options.kv_layout = way.kv_layout;
  options.max_seqs = kSeats;
  const RealClock clock;
  Engine engine(options, hash::BlockHasher(hash::kPublicKey, "model", kBlockSize), device.runner(), clock,
                seen);
  Answers answers;
  for (int pass = 0; pass < way.passes; ++pass) {
    answers.clear();
    for (size_t begin = 0; begin < requests.size(); begin += static_cast<size_t>(way.batch)) {
      for (Answer& answer : RunBatch(engine, requests, begin, way)) answers.push_back(std::move(answer));
    }
  }
  return answers;
}

// What: the reference, and whether other ways agree with it. Says what it does.
class Comparison {
 public:
  Comparison(Device& device, std::vector<Request> requests)
      : device_(device), requests_(std::move(requests)) {
    alone_ = RunAll(device_, requests_, {.name = "alone", .batch = 1}, seen_alone_);
  }

  Seen Check(const Way& way) { return Check(way, device_); }
  Seen Check(const Way& way, Device& device) {
    const Time began = clock_.Now();
    Seen seen;
    const Answers answers = RunAll(device, requests_, way, seen);
    int different = 0;
    for (size_t i = 0; i < answers.size(); ++i) {
      if (answers[i] == alone_[i]) continue;
      ++different;
      std::printf("  request %zu differs\n", i);
    }
    std::printf("%-36s %3zu of %zu as alone   %.1f s\n", way.name.c_str(), answers.size() - different,
                answers.size(), Seconds(clock_.Now() - began));
    std::fflush(stdout);
    equal_ &= different == 0;
    return seen;
  }
  // A way that was not really gone proves nothing.
  void Demand(bool condition, const char* what) {
    if (condition) return;
    std::printf("  but %s: nothing is proved\n", what);
    equal_ = false;
  }
  bool equal() const { return equal_; }
  // What the reference took.
  const Seen& seen_alone() const { return seen_alone_; }

 private:
  const RealClock clock_;
  Device& device_;
  const std::vector<Request> requests_;
  Answers alone_;
  Seen seen_alone_;
  bool equal_ = true;
};

int Main(int num_requests, int stride) {
  Device device(2);
  Comparison comparison(device, MakeRequests(num_requests));
  comparison.Check({.name = "batches of 32"});
  for (const int chunk : {1, 7, 64, 512}) {
    comparison.Check({.name = absl::StrCat("chunks of ", chunk), .chunk_tokens = chunk});
  }
  comparison.Check({.name = "cold cache", .prefix_cache = true});
  const Seen warm = comparison.Check({.name = "warm cache", .prefix_cache = true, .passes = 2});
  comparison.Demand(warm.hit_tokens > 16 * num_requests, "the cache was not hit");
  const Seen small = comparison.Check({.name = "a pool of 20 blocks", .num_blocks = kSmallPool});
  comparison.Demand(small.preemptions > 0, "nobody was preempted");
  comparison.Check({.name = "static batches", .prefix_cache = true, .batching = Batching::kStatic});
  comparison.Check({.name = "static batches, 20 contiguous blocks",
                    .num_blocks = kSmallPool,
                    .batching = Batching::kStatic,
                    .kv_layout = kv::Layout::kContiguous});
  for (const int batch : {1, 4}) {
    const Seen drafts = comparison.Check(
        {.name = absl::StrCat("drafts, ", batch, " at once"), .batch = batch, .speculation = true});
    comparison.Demand(drafts.right > 0 && drafts.wrong > 0, "no draft was right, or none wrong");
  }
  for (int position = 1; position < kOutput; position += stride) {
    const Seen seen =
        comparison.Check({.name = absl::StrCat("again from position ", position), .break_at = position});
    comparison.Demand(seen.prefilled > comparison.seen_alone().prefilled + position * num_requests,
                      "nothing was computed again");
  }
  Device single(1);
  comparison.Check({.name = "one thread"}, single);
  return comparison.equal() ? 0 : 1;
}

}  // namespace
}  // namespace qanat::engine

int main(int argc, char** argv) {
  int requests = 24;
  int stride = 4;
  for (int i = 1; i < argc; ++i) {
    const bool has_value = i + 1 < argc;
    if (std::strcmp(argv[i], "--requests") == 0 && has_value) {
      requests = std::atoi(argv[++i]);
    } else if (std::strcmp(argv[i], "--stride") == 0 && has_value) {
      stride = std::atoi(argv[++i]);
    } else {
      std::fprintf(stderr, "usage: %s [--requests N] [--stride S]\n", argv[0]);
      return 2;
    }
  }
  if (requests < 1 || stride < 1) return 2;
  return qanat::engine::Main(requests, stride);
}
