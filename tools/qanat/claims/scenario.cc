#include "tools/qanat/claims/scenario.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tools/qanat/random_tokens.h"

namespace qanat::tools::claims {
namespace {

// Below which a part `p` of a normal distribution lies.
double NormalQuantile(double p) {
  double low = -10, high = 10;
  for (int i = 0; i < 60; ++i) {
    const double middle = (low + high) / 2;
    (std::erfc(-middle / std::numbers::sqrt2) / 2 < p ? low : high) = middle;
  }
  return low;
}

// Below which a part `p` of the lengths lies. The logarithm of a log-normal one spreads by 1, as in chats.
double Quantile(Lengths lengths, double mean, double p) {
  switch (lengths) {
    case Lengths::kExponential:
      return -mean * std::log(1 - p);
    case Lengths::kLogNormal:
      return mean * std::exp(NormalQuantile(p) - 0.5);
    case Lengths::kConstant:
      break;
  }
  return mean;
}

// In random order, a length of every part of the distribution: so few are like it as they would not be drawn.
std::vector<int> SpreadLengths(RandomTokens& random, Lengths lengths, double mean, int count) {
  std::vector<int> spread(count);
  for (int i = 0; i < count; ++i) {
    spread[i] = static_cast<int>(std::lround(Quantile(lengths, mean, (i + 0.5) / count)));
    std::swap(spread[i], spread[static_cast<size_t>(random.Uniform() * (i + 1))]);
  }
  return spread;
}

std::vector<WorkloadRequest> DrawRequests(const Sizes& sizes, Lengths lengths, uint64_t seed,
                                          int32_t vocabulary) {
  RandomTokens random(seed, vocabulary);
  std::vector<std::vector<TokenId>> texts;
  for (int i = 0; i < sizes.groups; ++i) texts.push_back(random.Take(sizes.shared));
  std::vector<WorkloadRequest> requests(sizes.requests);
  const std::vector<int> outputs = SpreadLengths(random, lengths, sizes.output, sizes.requests);
  const Lengths vary = sizes.prompts_vary ? Lengths::kLogNormal : Lengths::kConstant;
  const std::vector<int> prompts = SpreadLengths(random, vary, sizes.prompt, sizes.requests);
  for (size_t i = 0; i < requests.size(); ++i) {
    WorkloadRequest& request = requests[i];
    const int prompt = std::clamp(prompts[i], 2, 8 * sizes.prompt);
    const std::vector<TokenId>& text = texts[static_cast<size_t>(random.Uniform() * sizes.groups)];
    request.prompt.assign(text.begin(), text.begin() + std::min(sizes.shared, prompt - 1));
    const std::vector<TokenId> own = random.Take(prompt - static_cast<int>(request.prompt.size()));
    request.prompt.insert(request.prompt.end(), own.begin(), own.end());
    request.max_tokens = sizes.longest;
    request.ends_after = std::clamp(outputs[i], 1, sizes.longest);
  }
  return requests;
}

// Of all requests, the blocks of the longest that each may become.
int WorstBlocks(const std::vector<WorkloadRequest>& requests) {
  int worst = 0;
  for (const WorkloadRequest& request : requests) {
    worst = std::max(worst, BlocksFor(static_cast<int>(request.prompt.size()) + request.max_tokens));
  }
  return worst;
}

}  // namespace

std::vector<Mode> Ladder() {
  using engine::Batching;
  using kv::Layout;
  return {{"static, contiguous", Batching::kStatic, Layout::kContiguous, false},
          {"static compacted, contiguous", Batching::kStaticCompacted, Layout::kContiguous, false},
          {"continuous, contiguous", Batching::kContinuous, Layout::kContiguous, false},
          {"continuous, paged", Batching::kContinuous, Layout::kPaged, false},
          {"continuous, paged, prefixes", Batching::kContinuous, Layout::kPaged, true}};
}

std::string NameOf(Lengths lengths) {
  switch (lengths) {
    case Lengths::kExponential:
      return "exponential";
    case Lengths::kLogNormal:
      return "log-normal";
    case Lengths::kConstant:
      break;
  }
  return "constant";
}

Scenario MakeLadder(const Sizes& sizes, Lengths lengths, bool tight, uint64_t seed, int32_t vocabulary) {
  Scenario scenario;
  scenario.title = absl::StrCat(NameOf(lengths), " outputs, ", tight ? "tight pool" : "roomy pool");
  scenario.workload.name = scenario.title;
  scenario.workload.requests = DrawRequests(sizes, lengths, seed, vocabulary);
  scenario.modes = Ladder();
  scenario.sizes = sizes;
  const int worst = WorstBlocks(scenario.workload.requests);
  // Live, an exponential output is in the mean as long as all of it is; every running one keeps one to spare.
  const int usual = BlocksFor(sizes.prompt + sizes.output) + 1;
  scenario.num_blocks = sizes.seats * (tight ? usual * 5 / 4 : worst);
  scenario.about =
      absl::StrCat(sizes.requests, " requests of ", sizes.prompt, " + ", sizes.output,
                   " tokens in the mean, each may take ", sizes.longest, "; ", scenario.num_blocks,
                   " blocks: ", tight ? "a quarter more than " : "as many as ", sizes.seats,
                   tight ? " usual requests hold, of " : " longest cases take, of ", tight ? usual : worst,
                   " blocks each");
  return scenario;
}

Scenario MakeKvUse(const Sizes& sizes, uint64_t seed, int32_t vocabulary) {
  Scenario scenario = MakeLadder(sizes, Lengths::kExponential, false, seed, vocabulary);
  scenario.title = scenario.workload.name = "use of the KV cache";
  std::erase_if(scenario.modes, [](const Mode& mode) {
    return mode.batching != engine::Batching::kContinuous || mode.prefix_cache;
  });
  return scenario;
}

Scenario MakeSharedPrefix(int requests, int seats, uint64_t seed, int32_t vocabulary) {
  Scenario scenario;
  scenario.title = scenario.workload.name = "shared prefixes";
  scenario.sizes = {.seats = seats,
                    .requests = requests,
                    .prompt = 512 + 32,
                    .prompts_vary = false,
                    .shared = 512,
                    .groups = 8,
                    .output = 32,
                    .longest = 32};
  scenario.workload.requests = DrawRequests(scenario.sizes, Lengths::kConstant, seed, vocabulary);
  scenario.workload.concurrency = seats;
  scenario.modes = Ladder();
  std::erase_if(scenario.modes, [](const Mode& mode) { return mode.layout != kv::Layout::kPaged; });
  scenario.num_blocks = seats * (WorstBlocks(scenario.workload.requests) + 1) + 8 * 512 / kBlockSize;
  scenario.about = absl::StrCat(requests,
                                " requests of 512 tokens that one of 8 groups shares, 32 of their own and "
                                "32 of output; ",
                                seats, " at once");
  return scenario;
}

}  // namespace qanat::tools::claims
