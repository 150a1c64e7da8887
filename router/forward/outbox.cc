#include "router/forward/outbox.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"

namespace qanat::router {
namespace {

// `next` follows `first` directly and both are of one choice.
bool MayJoin(const v1::GenerateResponse& first, const v1::GenerateResponse& next) {
  return !first.has_finish() && first.ByteSizeLong() + next.ByteSizeLong() <= Outbox::kFullBytes;
}

void Join(v1::GenerateResponse& first, v1::GenerateResponse next) {
  first.mutable_text()->append(next.text());
  first.mutable_token_ids()->MergeFrom(next.token_ids());
  first.mutable_logprobs()->MergeFrom(next.logprobs());
  first.mutable_prompt_logprobs()->MergeFrom(next.prompt_logprobs());
  if (next.has_finish()) *first.mutable_finish() = std::move(*next.mutable_finish());
  if (next.has_usage()) *first.mutable_usage() = std::move(*next.mutable_usage());
  if (next.has_timings()) *first.mutable_timings() = std::move(*next.mutable_timings());
  if (next.has_seed()) first.set_seed(next.seed());
}

}  // namespace

void Outbox::Push(v1::GenerateResponse response) {
  const auto previous =
      std::find_if(waiting_.rbegin(), waiting_.rend(),
                   [&](const v1::GenerateResponse& waiting) { return waiting.index() == response.index(); });
  // The last response of the call must stay behind those of other choices.
  const bool stays_last = !response.has_usage() || previous == waiting_.rbegin();
  if (previous != waiting_.rend() && stays_last && MayJoin(*previous, response)) {
    Join(*previous, std::move(response));
  } else {
    waiting_.push_back(std::move(response));
  }
}

v1::GenerateResponse Outbox::Pop() {
  QANAT_CHECK(!waiting_.empty()) << "nothing waits";
  v1::GenerateResponse response = std::move(waiting_.front());
  waiting_.pop_front();
  return response;
}

}  // namespace qanat::router
