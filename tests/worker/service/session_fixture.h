// What the tests of the stream between a router and a worker share.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "common/api/call_end.h"
#include "gtest/gtest.h"
#include "tests/worker/service/service_fixture.h"

namespace qanat::service {

namespace cluster = qanat::cluster::v1;

// What a router heard of its calls, and whether it came in order.
class HeardCalls {
 public:
  void Add(const cluster::SessionResponse& message) {
    for (const cluster::CallEvent& event : message.events()) {
      const uint64_t id = event.call_id();
      EXPECT_EQ(ends_.count(id), 0u) << "an event after the end of call " << id;
      if (event.has_accepted()) {
        EXPECT_TRUE(calls_[id].messages.empty()) << "accepted after a response";
        EXPECT_TRUE(accepted_.insert(id).second) << "accepted twice";
      }
      if (event.has_response()) {
        EXPECT_EQ(accepted_.count(id), 1u) << "a response before accepted";
        calls_[id].messages.push_back(event.response());
      }
      if (event.has_end()) {
        calls_[id].status = api::FromCallEnd(event.end());
        ends_.insert(id);
        ExpectLaws(calls_[id]);
      }
    }
  }
  bool ended(uint64_t id) const { return ends_.count(id) > 0; }
  bool accepted(uint64_t id) const { return accepted_.count(id) > 0; }
  const Heard& call(uint64_t id) { return calls_[id]; }
  size_t num_ended() const { return ends_.size(); }

 private:
  std::map<uint64_t, Heard> calls_;
  std::set<uint64_t> accepted_, ends_;
};

inline cluster::SessionRequest Start(uint64_t id, uint64_t seed, int32_t max_tokens,
                                     std::vector<TokenId> prompt = {7, 8, 9}) {
  cluster::SessionRequest request;
  cluster::StartCall& start = *request.mutable_start();
  start.set_call_id(id);
  start.set_cache_namespace(std::string(16, 'n'));
  *start.mutable_request()->mutable_token_ids()->mutable_ids() = {prompt.begin(), prompt.end()};
  start.mutable_request()->mutable_sampling()->set_seed(seed);
  start.mutable_request()->mutable_stopping()->set_max_tokens(max_tokens);
  start.mutable_request()->mutable_stopping()->set_ignore_eos(true);
  start.mutable_request()->mutable_output()->set_token_ids(true);
  return request;
}

inline cluster::SessionRequest Cancel(uint64_t id) {
  cluster::SessionRequest request;
  request.mutable_cancel()->set_call_id(id);
  return request;
}

}  // namespace qanat::service
