#include <random>
#include <vector>

#include "benchmark/benchmark.h"
#include "worker/sampling/sampler.h"
#include "worker/sampling/scorer.h"

namespace qanat::sampling {
namespace {

// A row as wide as SmolLM2's vocabulary. A larger deviation makes it more peaked; a model's rows are between
// the two.
std::vector<float> Row(double deviation) {
  std::mt19937_64 random(7);
  std::normal_distribution<float> logit(0.0f, static_cast<float>(deviation));
  std::vector<float> logits(49152);
  for (float& value : logits) value = logit(random);
  return logits;
}

void Measure(benchmark::State& state, const Params& params, double deviation) {
  const std::vector<float> logits = Row(deviation);
  Sampler sampler;
  uint32_t position = 0;
  for (auto _ : state) benchmark::DoNotOptimize(sampler.Sample(logits, params, {1, 0, position++}));
}

BENCHMARK_CAPTURE(Measure, greedy, Params{.temperature = 0}, 3.0);
BENCHMARK_CAPTURE(Measure, no_filter, Params{.temperature = 0.8f}, 3.0);
BENCHMARK_CAPTURE(Measure, top_k_40, Params{.temperature = 0.8f, .top_k = 40}, 3.0);
BENCHMARK_CAPTURE(Measure, top_k_10000, Params{.temperature = 0.8f, .top_k = 10000}, 3.0);
BENCHMARK_CAPTURE(Measure, top_p_90_peaked, Params{.temperature = 0.8f, .top_p = 0.9f}, 3.0);
BENCHMARK_CAPTURE(Measure, top_p_90_flat, Params{.temperature = 1.5f, .top_p = 0.9f}, 1.0);
BENCHMARK_CAPTURE(Measure, top_p_99_peaked, Params{.temperature = 1.0f, .top_p = 0.99f}, 3.0);
BENCHMARK_CAPTURE(Measure, min_p_5, Params{.temperature = 0.8f, .min_p = 0.05f}, 3.0);
BENCHMARK_CAPTURE(Measure, all_filters,
                  Params{.temperature = 0.8f, .top_k = 40, .top_p = 0.9f, .min_p = 0.05f}, 3.0);

// After an answer of 500 tokens, 300 of them distinct.
void MeasureRules(benchmark::State& state, const LogitRules& rules) {
  const std::vector<float> logits = Row(3.0);
  TokenCounts counts;
  for (TokenId id = 0; id < 300; ++id) counts[id * 150] = id % 3;
  Sampler sampler;
  uint32_t position = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(sampler.Sample(logits, {.temperature = 0}, {1, 0, position++}, rules, counts));
  }
}

LogitRules Penalties() {
  LogitRules rules;
  rules.repetition_penalty = 1.1f;
  rules.presence_penalty = 0.5f;
  rules.frequency_penalty = 0.5f;
  return rules;
}

LogitRules OneBias() {
  LogitRules rules;
  rules.bias = {{7, 1.0f}};
  return rules;
}

BENCHMARK_CAPTURE(MeasureRules, greedy_one_bias, OneBias());
BENCHMARK_CAPTURE(MeasureRules, greedy_penalties, Penalties());

void MeasureScore(benchmark::State& state) {
  const std::vector<float> logits = Row(3.0);
  Scorer scorer;
  for (auto _ : state)
    benchmark::DoNotOptimize(scorer.Score(logits, 7, static_cast<int32_t>(state.range(0))));
}

BENCHMARK(MeasureScore)->Arg(0)->Arg(20);

}  // namespace
}  // namespace qanat::sampling
