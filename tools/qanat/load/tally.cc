#include "tools/qanat/load/tally.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/base/error.h"
#include "tools/qanat/measure.h"

namespace qanat::tools {
namespace {

double Milliseconds(Duration duration) { return Seconds(duration) * 1e3; }

std::string NameOf(const absl::Status& status) {
  const std::string code = absl::StatusCodeToString(status.code());
  const std::string reason = ReasonOf(status);
  return reason.empty() ? code : absl::StrCat(code, " ", reason);
}

Duration TimePerToken(const RequestRecord& record) {
  return (record.last - record.first) / (record.tokens - 1);
}

// Of one that was served.
bool IsGood(const RequestRecord& record, const Limits& limits) {
  if (limits.ttft.has_value() && record.first - record.due > *limits.ttft) return false;
  return !limits.tpot.has_value() || record.tokens < 2 || TimePerToken(record) <= *limits.tpot;
}

// REQUIRES: the records hold a refusal of each name.
absl::Status CommonestRefusal(const std::map<std::string, int64_t>& refused,
                              const std::vector<RequestRecord>& records) {
  const auto commonest = std::max_element(refused.begin(), refused.end(),
                                          [](const auto& a, const auto& b) { return a.second < b.second; });
  if (commonest == refused.end()) return absl::OkStatus();
  return std::find_if(records.begin(), records.end(),
                      [&](const RequestRecord& record) {
                        return !record.interrupted && !record.status.ok() &&
                               NameOf(record.status) == commonest->first;
                      })
      ->status;
}

}  // namespace

Percentiles PercentilesOf(std::vector<double> values) {
  if (values.empty()) return {};
  return {.p50 = Quantile(values, 0.5), .p90 = Quantile(values, 0.9), .p99 = Quantile(values, 0.99)};
}

void Tally::AddGap(Duration gap, int32_t tokens) {
  for (int32_t i = 0; i < tokens; ++i) gaps_ms_.push_back(i == 0 ? Milliseconds(gap) : 0);
}

Summary Tally::Summarize(Duration elapsed, const Limits& limits) const {
  Summary summary;
  summary.seconds = Seconds(elapsed);
  std::vector<double> ttft;
  std::vector<double> tpot;
  std::vector<double> late;
  for (const RequestRecord& record : records_) {
    late.push_back(Milliseconds(record.sent - record.due));
    if (record.tokens > 0) {
      summary.prompt_tokens += record.prompt_tokens;
      summary.cached_tokens += record.cached_tokens;
      summary.output_tokens += record.tokens;
      ttft.push_back(Milliseconds(record.first - record.due));
    }
    if (record.interrupted) {
      ++summary.interrupted;
    } else if (!record.status.ok()) {
      ++summary.refused[NameOf(record.status)];
    } else if (record.FellShort()) {
      ++summary.short_answers;
    } else {
      ++summary.served;
      if (record.tokens > 1) tpot.push_back(Milliseconds(TimePerToken(record)));
      if (IsGood(record, limits)) ++summary.good;
    }
  }
  summary.commonest_refusal = CommonestRefusal(summary.refused, records_);
  summary.ttft = PercentilesOf(std::move(ttft));
  summary.tpot = PercentilesOf(std::move(tpot));
  summary.itl = PercentilesOf(gaps_ms_);
  summary.late = PercentilesOf(std::move(late));
  return summary;
}

}  // namespace qanat::tools
