// A service without its wires, for tests that draw thousands of requests.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "common/base/task_pool.h"
#include "common/metrics/exporter.h"
#include "common/text/tokenizer.h"
#include "qanat/v1/inference.pb.h"
#include "tests/fakes/fake_clock.h"
#include "tests/fakes/fake_model_runner.h"
#include "tests/worker/service/heard.h"
#include "worker/engine/engine.h"
#include "worker/service/generation.h"
#include "worker/service/service_context.h"
#include "worker/service/watch/state_publisher.h"
#include "worker/service/worker_metrics.h"

namespace qanat::service {

using Random = std::mt19937_64;

// Below `bound`, evenly enough.
inline int32_t Pick(Random& random, int32_t bound) {
  return static_cast<int32_t>(random() % static_cast<uint64_t>(bound));
}
inline bool OneIn(Random& random, int32_t times) { return Pick(random, times) == 0; }

struct LawOptions {
  int32_t context_length = 64;
  int32_t num_blocks = 24;  // small: preemption and eviction are under way
  int32_t max_seqs = 6;
  int32_t queue_requests = 64;
  int64_t queue_tokens = 65536;
};

// One request and what its caller has heard so far.
struct LawCall {
  v1::GenerateRequest request;
  std::shared_ptr<Generation> generation;
  uint64_t first_sequence = 0;  // 0: it was not accepted at once
  bool disturbed = false;       // cancelled, given a deadline or failed by the test
  bool ended = false;
  Heard heard;
};

// What a choice has to say when nothing disturbs it.
struct ExpectedChoice {
  std::string text;
  std::vector<TokenId> ids;
  v1::Finish finish;
  std::vector<sampling::ScoredToken> scores, prompt_scores;  // where asked for
};

// What: generations over a real engine and the fake model, in one thread and by a fake clock: a test steps
// the engine and reads messages as the unary call does. The vocabulary has 20 tokens, so that texts hold
// stops, ends, split characters and repeated drafts by chance. Threads: one.
class LawRig {
 public:
  explicit LawRig(LawOptions options = {});
  ~LawRig();

  // A request that the server accepts, of any shape. `max_prompt` tokens at most.
  v1::GenerateRequest Draw(Random& random, int32_t max_prompt = 40) const;

  std::unique_ptr<LawCall> Start(v1::GenerateRequest request, std::optional<Duration> timeout = std::nullopt);
  // False when there was nothing to do.
  bool Step();
  // Takes one message, or the end, if there is one: GenerateReactor's way.
  bool Read(LawCall& call);
  void ReadAll(LawCall& call) {
    while (Read(call)) {
    }
  }
  // Steps and reads until the call has ended.
  void Finish(LawCall& call);
  // What the whole call says, nothing else being served.
  Heard Ask(v1::GenerateRequest request);
  // `count` drawn requests, several at a time, at random paces; with `disturb` one in three is cancelled,
  // late or hit by a failing row.
  std::vector<std::unique_ptr<LawCall>> Serve(Random& random, int32_t count, bool disturb);

  // Found without the service or the engine.
  ExpectedChoice Expect(const v1::GenerateRequest& request, uint32_t choice) const;
  bool IsIdle() const;

  const LawOptions options;
  std::unique_ptr<text::Tokenizer> tokenizer;
  fakes::FakeClock clock;
  fakes::FakeModelRunner runner;
  metrics::Exporter exporter;
  WorkerMetrics metrics;
  StatePublisher publisher;
  std::unique_ptr<engine::Engine> engine;
  const api::WorkerInfo info;
  LiveGenerations live;
  rpc::StallSweeper stall_sweeper;  // has nothing to sweep
  uint64_t drawn_seed = 1'000'000;
  TaskPool text_pool;
  TaskPool stream_pool;
  const ServiceContext context;

 private:
  void Disturb(Random& random, LawCall& call);

  uint64_t last_sequence_ = 0;
};

}  // namespace qanat::service
