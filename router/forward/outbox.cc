#include "router/forward/outbox.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"

namespace qanat::router {
namespace {

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
  const size_t bytes = response.SpaceUsedLong();
  const auto previous = std::find_if(waiting_.rbegin(), waiting_.rend(), [&](const Waiting& waiting) {
    return waiting.response.index() == response.index();
  });
  // The last response of the call must stay behind those of other choices.
  const bool stays_last = !response.has_usage() || previous == waiting_.rbegin();
  if (previous == waiting_.rend() || !stays_last || previous->response.has_finish() ||
      previous->bytes + bytes > kFullBytes) {
    waiting_.push_back({std::move(response), bytes});
    bytes_ += bytes;
    return;
  }
  Join(previous->response, std::move(response));
  bytes_ -= previous->bytes;
  previous->bytes = previous->response.SpaceUsedLong();
  bytes_ += previous->bytes;
}

v1::GenerateResponse Outbox::Pop() {
  QANAT_CHECK(!waiting_.empty()) << "nothing waits";
  v1::GenerateResponse response = std::move(waiting_.front().response);
  bytes_ -= waiting_.front().bytes;
  waiting_.pop_front();
  return response;
}

}  // namespace qanat::router
