#include "benchmark/benchmark.h"
#include "common/hash/block_hash.h"

namespace qanat::hash {
namespace {

// A long prompt, as the router hashes it once a request.
void BM_HashPrompt(benchmark::State& state) {
  std::vector<TokenId> tokens(static_cast<size_t>(state.range(0)));
  for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<TokenId>(i * 7919 % 49152);
  const BlockHasher hasher(kPublicKey, "model", 16);
  for (auto _ : state) benchmark::DoNotOptimize(hasher.HashPrompt(Namespace{}, tokens));
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK(BM_HashPrompt)->Arg(1000)->Arg(100000);

}  // namespace
}  // namespace qanat::hash
