#include "tests/worker/engine/simulation/history.h"

#include <algorithm>
#include <chrono>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"

namespace qanat::engine::simulation {
namespace {

class Dice {
 public:
  explicit Dice(uint64_t seed) : random_(seed) {}
  int32_t Below(int32_t n) { return static_cast<int32_t>(random_() % static_cast<uint64_t>(n)); }
  bool OneIn(int32_t n) { return Below(n) == 0; }
  uint64_t Bits() { return random_(); }

 private:
  std::mt19937_64 random_;
};

EngineOptions MakeOptions(Dice& dice) {
  EngineOptions options;
  options.block_size = 1 << dice.Below(4);
  options.num_blocks = 8 + dice.Below(33);
  options.context_length = 48 + dice.Below(60);
  options.max_seqs = 1 + dice.Below(10);
  options.max_batch_tokens = options.max_seqs + dice.Below(50);
  constexpr int32_t kChunks[] = {1, 7, 64};
  options.chunk_tokens = kChunks[dice.Below(3)];
  options.prefix_cache = !dice.OneIn(4);
  options.speculation = dice.OneIn(2);
  options.stall_limit = std::chrono::milliseconds(20 + dice.Below(200));
  options.queue_requests = 64;
  options.queue_tokens = 4096;
  // The ways of old, for the measurement of what is gained.
  constexpr Batching kOld[] = {Batching::kStatic, Batching::kStaticCompacted};
  if (dice.OneIn(6)) options.batching = kOld[dice.Below(2)];
  if (!options.prefix_cache && dice.OneIn(2)) options.kv_layout = kv::Layout::kContiguous;
  return options;
}

// As many choices as the pool can hold, `wanted` at most.
int32_t FittingChoices(const SimRequest& request, const EngineOptions& options, int32_t wanted) {
  const int32_t total = request.length + request.max_tokens;
  const int32_t each = (total + options.block_size - 1) / options.block_size;
  const int32_t shared = options.prefix_cache ? (request.length - 1) / options.block_size : 0;
  return std::clamp((options.num_blocks - shared) / (each - shared), 1, wanted);
}

// `alike`: most of the prompt is the same text, so that one computes what the next one needs.
SimRequest DrawRequest(Dice& dice, const EngineOptions& options, bool alike) {
  const int32_t largest = std::min(options.context_length, options.num_blocks * options.block_size);
  SimRequest request;
  request.text = dice.Below(3);
  request.length = 1 + dice.Below(std::min(largest - 1, 50));
  request.shared = std::min(request.length, dice.Below(60));
  if (alike) {
    request.text = 0;
    request.length = std::max(request.length, std::min(largest - 1, 20));
    request.shared = request.length - dice.Below(4);
  }
  request.max_tokens = 1 + dice.Below(std::min(largest - request.length, 40));
  request.seed = dice.Bits();
  request.greedy = dice.OneIn(2);
  request.priority = static_cast<Priority>(dice.Below(3));
  request.bypass_prefix_cache = dice.OneIn(alike ? 3 : 8);
  request.other_namespace = dice.OneIn(8);
  request.may_stop = dice.OneIn(4);
  if (dice.OneIn(4)) request.choices = FittingChoices(request, options, 2 + dice.Below(3));
  request.logprobs = dice.OneIn(4);
  request.prompt_logprobs = dice.OneIn(6);
  request.penalized = dice.OneIn(3);
  if (dice.OneIn(8)) request.deadline_ms = 1 + dice.Below(60);
  return request;
}

SimEvent DrawDisturbance(Dice& dice, int32_t step, const std::vector<SimRequest>& requests) {
  constexpr SimEvent::Kind kKinds[] = {
      SimEvent::Kind::kCancel,  SimEvent::Kind::kStop, SimEvent::Kind::kFailRow,   SimEvent::Kind::kStall,
      SimEvent::Kind::kUnstall, SimEvent::Kind::kJump, SimEvent::Kind::kSlowListen};
  SimEvent event{step, kKinds[dice.Below(7)], dice.Below(static_cast<int32_t>(requests.size()))};
  event.choice = dice.Below(requests[static_cast<size_t>(event.request)].choices);
  // Readers stop after a sip or at once. Time jumps by less than a step, or past every deadline.
  constexpr int32_t kJumps[] = {1, 30, 100'000};
  event.amount =
      event.kind == SimEvent::Kind::kStall ? std::max(0, dice.Below(16) - 8) : kJumps[dice.Below(3)];
  return event;
}

std::string_view NameOf(SimEvent::Kind kind) {
  switch (kind) {
    case SimEvent::Kind::kSubmit:
      return "submit";
    case SimEvent::Kind::kCancel:
      return "cancel";
    case SimEvent::Kind::kStop:
      return "stop";
    case SimEvent::Kind::kStall:
      return "stall";
    case SimEvent::Kind::kUnstall:
      return "unstall";
    case SimEvent::Kind::kJump:
      return "jump";
    case SimEvent::Kind::kSlowListen:
      return "slow listener";
    case SimEvent::Kind::kFailRow:
      break;
  }
  return "fail the next row of";
}

}  // namespace

History MakeHistory(uint64_t seed) {
  Dice dice(seed);
  History history;
  history.options = MakeOptions(dice);
  history.vocabulary = dice.OneIn(2) ? 1000 : 2;
  history.depth = dice.OneIn(2) ? 1 : 2 + dice.Below(2);
  const bool alike = history.depth > 1 && dice.OneIn(2);
  const int32_t num_requests = 4 + dice.Below(12);
  for (int32_t step = 0; static_cast<int32_t>(history.requests.size()) < num_requests; ++step) {
    while (static_cast<int32_t>(history.requests.size()) < num_requests && dice.OneIn(3)) {
      const auto index = static_cast<int32_t>(history.requests.size());
      history.requests.push_back(DrawRequest(dice, history.options, alike));
      history.events.push_back({step, SimEvent::Kind::kSubmit, index});
    }
  }
  const int32_t disturbances = dice.Below(alike ? 30 : 10);
  for (int32_t i = 0; i < disturbances; ++i) {
    history.events.push_back(DrawDisturbance(dice, dice.Below(alike ? 50 : 150), history.requests));
  }
  std::stable_sort(history.events.begin(), history.events.end(),
                   [](const SimEvent& a, const SimEvent& b) { return a.step < b.step; });
  return history;
}

Request MakeRequest(const SimRequest& sim, int32_t vocabulary) {
  std::mt19937_64 random(sim.seed);
  Request request;
  for (int32_t i = 0; i < sim.length; ++i) {
    const auto drawn = static_cast<TokenId>(random() % static_cast<uint64_t>(vocabulary));
    request.prompt.push_back(i < sim.shared ? (100 * sim.text + i) % vocabulary : drawn);
  }
  request.max_tokens = sim.max_tokens;
  request.seed = sim.seed;
  request.sampling.temperature = sim.greedy ? 0.0f : 1.0f;
  request.priority = sim.priority;
  request.bypass_prefix_cache = sim.bypass_prefix_cache;
  request.cache_namespace.bytes[0] = sim.other_namespace ? 1 : 0;
  if (sim.may_stop) {
    request.end_tokens = {static_cast<TokenId>(random() % 1000), static_cast<TokenId>(random() % 30)};
  }
  if (sim.logprobs) request.logprobs = 2;
  if (sim.prompt_logprobs) request.prompt_logprobs = 1;
  if (sim.penalized) {
    auto rules = std::make_shared<sampling::LogitRules>();
    rules->repetition_penalty = 1.1f;
    rules->frequency_penalty = 0.5f;
    request.rules = std::move(rules);
  }
  return request;
}

std::string Describe(const History& history) {
  const EngineOptions& o = history.options;
  std::string text = absl::StrCat(
      "options: blocks ", o.num_blocks, " x ", o.block_size, ", context ", o.context_length, ", seqs ",
      o.max_seqs, ", batch ", o.max_batch_tokens, ", chunk ", o.chunk_tokens, ", prefix cache ",
      o.prefix_cache ? "on" : "off", ", drafts ", o.speculation ? "on" : "off", ", batching ",
      static_cast<int>(o.batching), o.kv_layout == kv::Layout::kContiguous ? ", contiguous" : "",
      ", vocabulary ", history.vocabulary, ", depth ", history.depth, "\n");
  for (size_t i = 0; i < history.requests.size(); ++i) {
    const SimRequest& r = history.requests[i];
    absl::StrAppend(&text, "request ", i, ": text ", r.text, ", ", r.shared, " shared of ", r.length,
                    ", at most ", r.max_tokens, " tokens, seed ", r.seed, ", ", r.greedy ? "greedy" : "drawn",
                    ", priority ", static_cast<int>(r.priority),
                    r.bypass_prefix_cache ? ", bypasses the cache" : "",
                    r.other_namespace ? ", other namespace" : "", r.may_stop ? ", may stop" : "",
                    r.penalized ? ", penalized" : "", r.logprobs ? ", logprobs" : "",
                    r.choices > 1 ? absl::StrCat(", ", r.choices, " choices") : std::string(),
                    r.prompt_logprobs ? ", prompt logprobs" : "");
    if (r.deadline_ms > 0) absl::StrAppend(&text, ", deadline ", r.deadline_ms, " ms");
    text += '\n';
  }
  for (const SimEvent& event : history.events) {
    const std::string name(NameOf(event.kind));
    absl::StrAppend(&text, "step ", event.step, ": ", name, " ", event.request, ".", event.choice, " by ",
                    event.amount, "\n");
  }
  return text;
}

}  // namespace qanat::engine::simulation
