// engine_simulation [--seeds N] [--first S]: runs histories S .. S + N - 1; the first that fails is boiled
// down and printed, and the exit status is 1.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/worker/engine/simulation/shrink.h"
#include "tests/worker/engine/simulation/simulate.h"

namespace qanat::engine::simulation {
namespace {

// Histories are run in children of this many, so that a fork costs little.
constexpr uint64_t kSeedsPerChild = 1000;

std::optional<std::string> SimulateAlone(const History& history) {
  return RunIsolated([&] { Simulate(history); });
}

[[noreturn]] void Report(uint64_t seed) {
  const History history = MakeHistory(seed);
  const std::string words = SimulateAlone(history).value();
  std::printf("seed %llu fails:\n%s\nshrinking ...\n", static_cast<unsigned long long>(seed), words.c_str());
  const History smallest = Shrink(history, SimulateAlone);
  std::printf("%s%s\n", Describe(smallest).c_str(), SimulateAlone(smallest).value().c_str());
  std::exit(1);
}

// A tame simulation proves nothing. The last rule needs many seeds to show at all.
bool IsWild(const Tally& tally, uint64_t seeds) {
  const auto n = static_cast<int64_t>(seeds);
  return tally.preemptions > n / 2 && tally.pauses > n / 10 && tally.refused > n / 20 &&
         tally.accepted_drafts > n / 2 && tally.rejected_drafts > n / 2 && tally.padding > n &&
         tally.hit_tokens > 10 * n && tally.evictions > 10 * n && tally.complete > 5 * n &&
         tally.broken_off > n / 2 && tally.failed > n / 10 && tally.late > n / 10 &&
         tally.pending_reads > n / 5 && (seeds < 1000 || tally.most_preemptions == 3);
}

// The tallies of a child come back through its standard output.
Tally RunChunk(uint64_t first, uint64_t count) {
  FILE* const file = std::tmpfile();
  const std::optional<std::string> words = RunIsolated([&] {
    Tally tally;
    for (uint64_t seed = first; seed < first + count; ++seed) tally.Add(Simulate(MakeHistory(seed)));
    std::fwrite(&tally, sizeof(tally), 1, file);
    std::fflush(file);
  });
  if (words.has_value()) {
    for (uint64_t seed = first; seed < first + count; ++seed) {
      if (SimulateAlone(MakeHistory(seed)).has_value()) Report(seed);
    }
    std::printf("histories %llu .. fail together, none alone:\n%s\n", static_cast<unsigned long long>(first),
                words->c_str());
    std::exit(1);
  }
  Tally tally;
  std::rewind(file);
  if (std::fread(&tally, sizeof(tally), 1, file) != 1) std::exit(1);
  std::fclose(file);
  return tally;
}

int Main(uint64_t first, uint64_t seeds) {
  Tally tally;
  for (uint64_t done = 0; done < seeds; done += kSeedsPerChild) {
    tally.Add(RunChunk(first + done, std::min(kSeedsPerChild, seeds - done)));
  }
  std::puts(absl::StrCat(seeds, " histories, no finding: ", Describe(tally)).c_str());
  if (IsWild(tally, seeds)) return 0;
  std::puts("but they were tame: too little of what was to be tested has happened");
  return 1;
}

}  // namespace
}  // namespace qanat::engine::simulation

int main(int argc, char** argv) {
  uint64_t first = 0;
  uint64_t seeds = 10000;
  for (int i = 1; i < argc; ++i) {
    const bool has_value = i + 1 < argc;
    if (std::strcmp(argv[i], "--seeds") == 0 && has_value) {
      seeds = std::strtoull(argv[++i], nullptr, 10);
    } else if (std::strcmp(argv[i], "--first") == 0 && has_value) {
      first = std::strtoull(argv[++i], nullptr, 10);
    } else {
      std::fprintf(stderr, "usage: %s [--seeds N] [--first S]\n", argv[0]);
      return 2;
    }
  }
  return qanat::engine::simulation::Main(first, seeds);
}
