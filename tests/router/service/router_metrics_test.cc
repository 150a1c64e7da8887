#include "router/service/router_metrics.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/router/service/service_fixture.h"

namespace qanat::router {
namespace {

using testing::HasSubstr;
using testing::Not;

class RouterMetricsTest : public ServiceTest {
 protected:
  RouterMetricsTest() { metrics_.Watch(cluster_); }

  // The value of a line of the scrape, as text.
  std::string Value(const std::string& series) const {
    const std::string text = exporter_.Text();
    const size_t at = text.find("\n" + series + " ");
    if (at == std::string::npos) return "none";
    const size_t from = at + series.size() + 2;
    return text.substr(from, text.find('\n', from) - from);
  }
  // The same, once the call's last trace has been counted.
  bool Becomes(const std::string& series, const std::string& value) {
    return Await([&] { return Value(series) == value; });
  }
};

TEST_F(RouterMetricsTest, CountsWhatWasServed) {
  const std::string worker = AddWorker().address();
  ASSERT_TRUE(Generate(Ask("hello")).status.ok());
  EXPECT_TRUE(Becomes("qanat_router_requests_total{code=\"OK\",model=\"tiny\"}", "1"));
  EXPECT_TRUE(Becomes("qanat_router_decisions_total{outcome=\"route\",policy=\"least_loaded\"}", "1"));
  EXPECT_TRUE(Becomes("qanat_router_decision_duration_seconds_count{policy=\"least_loaded\"}", "1"));
  EXPECT_TRUE(Becomes("qanat_router_dispatches_total{worker=\"" + worker + "\"}", "1"));
  EXPECT_TRUE(Becomes("qanat_router_prompt_tokens_total", "5"));
  EXPECT_TRUE(Becomes("qanat_router_relayed_tokens_total", "5"));
  EXPECT_TRUE(Becomes("qanat_router_relayed_messages_total", "5"));
  EXPECT_TRUE(Becomes("qanat_router_time_to_first_token_seconds_count{model=\"tiny\"}", "1"));
  EXPECT_TRUE(Becomes("qanat_router_inter_token_duration_seconds_count{model=\"tiny\"}", "4"));
  EXPECT_TRUE(Becomes("qanat_router_request_duration_seconds_count{model=\"tiny\"}", "1"));
  EXPECT_TRUE(Becomes("qanat_router_queue_duration_seconds_count{class=\"standard\"}", "1"));
  EXPECT_TRUE(Becomes("qanat_router_queue_requests{class=\"standard\"}", "0"));
  EXPECT_THAT(Value("qanat_router_relay_cpu_seconds_total"), Not("0"));
}

TEST_F(RouterMetricsTest, ShowsWhatWaitsForAWorker) {
  AddWorker();
  std::string requests, tokens;
  policy_.on_pick = [&] {
    requests = Value("qanat_router_queue_requests{class=\"batch\"}");
    tokens = Value("qanat_router_queue_tokens{class=\"batch\"}");
  };
  v1::GenerateRequest request = Ask("hello");
  request.set_priority(v1::PRIORITY_BATCH);
  ASSERT_TRUE(Generate(request).status.ok());
  EXPECT_EQ(requests, "1");
  EXPECT_EQ(tokens, "5");
  EXPECT_EQ(Value("qanat_router_queue_requests{class=\"batch\"}"), "0");
  EXPECT_EQ(Value("qanat_router_queue_tokens{class=\"batch\"}"), "0");
}

// The gap before a token is that of its own choice.
TEST_F(RouterMetricsTest, EachChoiceHasGapsOfItsOwn) {
  Worker& worker = AddWorker({.mode = Worker::Mode::kHold});
  grpc::ClientContext context;
  v1::GenerateRequest request = Ask("x");
  request.mutable_sampling()->set_n(3);
  const auto reader = stub_->Generate(&context, request);
  const uint64_t id = worker.NextStart().call_id();
  for (int position = 0; position < 2; ++position) {
    for (int choice = 0; choice < 3; ++choice) {
      v1::GenerateResponse response = Letter(position, 'a');
      response.set_index(choice);
      worker.Send(id, response);
    }
  }
  worker.SendEnd(id, absl::OkStatus());
  ASSERT_TRUE(Read(*reader).status.ok());
  EXPECT_TRUE(Becomes("qanat_router_request_duration_seconds_count{model=\"tiny\"}", "1"));
  EXPECT_EQ(Value("qanat_router_time_to_first_token_seconds_count{model=\"tiny\"}"), "1");
  EXPECT_EQ(Value("qanat_router_inter_token_duration_seconds_count{model=\"tiny\"}"), "3");
}

TEST_F(RouterMetricsTest, CountsRefusalsByReason) {
  Generate(Ask("x"));
  EXPECT_TRUE(Becomes("qanat_router_refusals_total{reason=\"no_worker\"}", "1"));
  EXPECT_TRUE(Becomes("qanat_router_requests_total{code=\"UNAVAILABLE\",model=\"\"}", "1"));
  AddWorker();
  v1::GenerateRequest request = Ask("x");
  request.mutable_sampling()->set_temperature(-1);
  Generate(request);
  EXPECT_TRUE(Becomes("qanat_router_refusals_total{reason=\"invalid\"}", "1"));
}

TEST_F(RouterMetricsTest, ShowsEachWorkersStateAndCalls) {
  Worker& worker = AddWorker({.mode = Worker::Mode::kHold});
  const std::string of = "{worker=\"" + worker.address() + "\"";
  grpc::ClientContext context;
  const auto reader = stub_->Generate(&context, Ask("x"));
  const uint64_t id = worker.NextStart().call_id();
  EXPECT_EQ(Value("qanat_router_in_flight" + of + "}"), "1");
  const std::string state = "qanat_router_worker_state{state=\"";
  EXPECT_EQ(Value(state + "ready\",worker=\"" + worker.address() + "\"}"), "1");
  EXPECT_EQ(Value(state + "down\",worker=\"" + worker.address() + "\"}"), "0");
  worker.SendEnd(id, absl::OkStatus());
  EXPECT_TRUE(Read(*reader).status.ok());
  EXPECT_TRUE(Becomes("qanat_router_in_flight" + of + "}", "0"));
}

TEST_F(RouterMetricsTest, NothingIsNotANumberBeforeTraffic) {
  EXPECT_THAT(exporter_.Text(), HasSubstr("qanat_router_relayed_tokens_total 0"));
  EXPECT_THAT(exporter_.Text(), Not(HasSubstr(" nan\n")));
  EXPECT_THAT(exporter_.Text(), Not(HasSubstr(" Nan\n")));
}

}  // namespace
}  // namespace qanat::router
