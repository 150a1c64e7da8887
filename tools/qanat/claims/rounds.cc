#include "tools/qanat/claims/rounds.h"

#include <algorithm>
#include <cstdio>

#include "common/base/check.h"
#include "common/base/status_macros.h"
#include "tools/qanat/claims/expect.h"

namespace qanat::tools::claims {
namespace {

size_t ReferenceMode(const Scenario& scenario) {
  const auto found = std::find_if(scenario.modes.begin(), scenario.modes.end(), [](const Mode& mode) {
    return mode.batching == engine::Batching::kContinuous && mode.layout == kv::Layout::kPaged &&
           !mode.prefix_cache;
  });
  QANAT_CHECK(found != scenario.modes.end());
  return static_cast<size_t>(found - scenario.modes.begin());
}

absl::Status RunRound(const Scenario& scenario, const Bed& bed, Section& section) {
  Timings all;
  Timings reference;
  for (size_t i = 0; i < scenario.modes.size(); ++i) {
    const Mode& mode = scenario.modes[i];
    QANAT_ASSIGN_OR_RETURN(const Measured measured, MeasureMode(scenario, mode, bed));
    section.rows[i].measured.push_back(measured.figures);
    if (i == ReferenceMode(scenario)) reference = measured.timings;
    if (mode.batching == engine::Batching::kStatic) continue;
    for (const auto& [sequences, seconds] : measured.timings.step_seconds) {
      std::vector<double>& known = all.step_seconds[sequences];
      known.insert(known.end(), seconds.begin(), seconds.end());
    }
  }
  const Prices prices(all, reference);
  for (size_t i = 0; i < scenario.modes.size(); ++i) {
    section.rows[i].expected.push_back(
        Expect(scenario, scenario.modes[i], prices, bed.options.max_batch_tokens));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Report> RunRounds(const std::vector<std::vector<Scenario>>& rounds, const Bed& bed) {
  Report report;
  report.device = bed.name;
  for (const Scenario& scenario : rounds.front()) {
    Section& section = report.sections.emplace_back(Section{scenario.title, scenario.about, {}});
    for (const Mode& mode : scenario.modes) section.rows.push_back({mode.name, {}, {}});
  }
  for (size_t round = 0; round < rounds.size(); ++round) {
    for (size_t i = 0; i < rounds[round].size(); ++i) {
      const Scenario& scenario = rounds[round][i];
      std::fprintf(stderr, "round %zu of %zu: %s\n", round + 1, rounds.size(), scenario.title.c_str());
      QANAT_RETURN_IF_ERROR(RunRound(scenario, bed, report.sections[i]));
    }
  }
  return report;
}

}  // namespace qanat::tools::claims
