// A21 as a scrape sees it: after a mass abort, without new traffic, nothing runs or waits, the cache is free,
// and the ends add up to what was accepted.
#include <memory>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/worker/service/generate_fixture.h"

namespace qanat::service {
namespace {

using testing::HasSubstr;
using A21ScrapeAfterMassAbortTest = GenerateFixture;

TEST_F(A21ScrapeAfterMassAbortTest, FiftyCancelledRequestsAreGoneFromTheNextScrape) {
  FixtureOptions endless;  // none ends by itself before it is cancelled
  endless.context_length = 100000;
  endless.num_blocks = 65536;
  runner_.Allow(3);
  Start(endless);
  std::vector<std::unique_ptr<grpc::ClientContext>> contexts;
  std::vector<std::unique_ptr<grpc::ClientReader<v1::GenerateResponse>>> readers;
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    v1::GenerateRequest request = Request(60000);
    request.mutable_sampling()->set_seed(seed);
    contexts.push_back(std::make_unique<grpc::ClientContext>());
    readers.push_back(stub_->Generate(contexts.back().get(), request));
  }
  const auto accepted = [&] {
    return worker_->Metrics().find("qanat_worker_request_prompt_tokens_count{model=\"tiny\"} 50\n") !=
           std::string::npos;
  };
  while (!accepted()) std::this_thread::yield();
  for (const auto& context : contexts) context->TryCancel();
  runner_.Allow(-1);
  for (const auto& reader : readers) {
    for (v1::GenerateResponse message; reader->Read(&message);) {
    }
    EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::CANCELLED);
  }
  ASSERT_TRUE(worker_->WaitUntilIdle());
  const std::string scrape = worker_->Metrics();
  for (const char* line :
       {"qanat_worker_requests_running{model=\"tiny\"} 0\n",
        "qanat_worker_requests_waiting{model=\"tiny\"} 0\n",
        "qanat_worker_waiting_tokens{model=\"tiny\"} 0\n", "qanat_worker_kv_usage_ratio{model=\"tiny\"} 0\n",
        "qanat_worker_requests_total{finish_reason=\"cancelled\",model=\"tiny\"} 50\n",
        "qanat_worker_requests_total{finish_reason=\"stop\",model=\"tiny\"} 0\n",
        "qanat_worker_requests_total{finish_reason=\"length\",model=\"tiny\"} 0\n",
        "qanat_worker_requests_total{finish_reason=\"error\",model=\"tiny\"} 0\n"}) {
    EXPECT_THAT(scrape, HasSubstr(line));
  }
}

}  // namespace
}  // namespace qanat::service
