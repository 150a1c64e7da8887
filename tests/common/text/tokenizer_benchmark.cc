// Needs QANAT_MODEL. Bytes a second on one core.
#include <fstream>
#include <sstream>

#include "benchmark/benchmark.h"
#include "common/text/detokenizer.h"
#include "common/text/stop_matcher.h"
#include "tests/golden/golden_tokenizer.h"

namespace qanat::text {
namespace {

// About `bytes` of English prose and tables: the project's own page on its architecture, over and over.
std::string OrdinaryText(size_t bytes) {
  std::ifstream file(std::string(QANAT_SOURCE_DIR) + "/docs/architecture.md");
  std::stringstream page;
  page << file.rdbuf();
  QANAT_CHECK(!page.str().empty()) << "docs/architecture.md cannot be read";
  std::string text;
  while (text.size() < bytes) text += page.str();
  return text;
}

std::string Repeat(std::string_view unit, size_t times) {
  std::string text;
  for (size_t i = 0; i < times; ++i) text += unit;
  return text;
}

void Encode(benchmark::State& state, const std::string& text) {
  const Tokenizer& tokenizer = golden::RealTokenizer();
  size_t tokens = 0;
  for (auto _ : state) tokens = tokenizer.Encode(text).size();
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(text.size()));
  state.counters["bytes_per_token"] = static_cast<double>(text.size()) / static_cast<double>(tokens);
}

void BM_EncodeOrdinaryText(benchmark::State& state) {
  Encode(state, OrdinaryText(static_cast<size_t>(state.range(0))));
}
BENCHMARK(BM_EncodeOrdinaryText)->Arg(2000)->Arg(1000000)->Unit(benchmark::kMicrosecond);

// Runs without a break of one unit.
void BM_EncodeRun(benchmark::State& state, std::string_view unit) {
  Encode(state, Repeat(unit, static_cast<size_t>(state.range(0))));
}
BENCHMARK_CAPTURE(BM_EncodeRun, letter, "a")->Arg(10000)->Arg(100000)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(BM_EncodeRun, blank, " ")->Arg(10000)->Arg(100000)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(BM_EncodeRun, punctuation, "=-")->Arg(10000)->Arg(100000)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(BM_EncodeRun, newline, "\n")->Arg(10000)->Arg(100000)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(BM_EncodeRun, cjk, "\u6C34")->Arg(10000)->Arg(100000)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(BM_EncodeRun, digit, "1")->Arg(10000)->Arg(100000)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(BM_EncodeRun, control_begun, "<|im_start")
    ->Arg(1000)
    ->Arg(10000)
    ->Unit(benchmark::kMillisecond);

void BM_Load(benchmark::State& state) {
  const Vocabulary& vocabulary = golden::RealTokenizer().vocabulary();
  for (auto _ : state) benchmark::DoNotOptimize(Tokenizer::Create(vocabulary));
}
BENCHMARK(BM_Load)->Unit(benchmark::kMillisecond);

// What the worker does with each token that it generates, with 4 stop strings.
void BM_DetokenizeAndMatch(benchmark::State& state) {
  const Tokenizer& tokenizer = golden::RealTokenizer();
  const std::vector<TokenId> ids = tokenizer.Encode(OrdinaryText(100000));
  for (auto _ : state) {
    Detokenizer detokenizer(tokenizer);
    StopMatcher matcher({"\n\n\n", "User:", "<|im_end|>", "###"});
    for (const TokenId id : ids) benchmark::DoNotOptimize(matcher.Feed(detokenizer.Append(id)));
  }
  state.SetItemsProcessed(state.iterations() * static_cast<int64_t>(ids.size()));
}
BENCHMARK(BM_DetokenizeAndMatch)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace qanat::text
