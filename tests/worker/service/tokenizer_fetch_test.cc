// Routers that fetch the tokenizer and do not read it.
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "common/base/error.h"
#include "gtest/gtest.h"
#include "tests/fakes/fake_model_runner.h"
#include "tests/worker/service/scripted_runner.h"
#include "tests/worker/service/service_fixture.h"

namespace qanat::service {
namespace {

namespace cluster = qanat::cluster::v1;

// A tokenizer of many chunks.
FixtureOptions LargeTokenizer() {
  FixtureOptions options;
  options.vocabulary.chat_template = std::string(4 << 20, 'x');
  return options;
}

struct Fetch {
  explicit Fetch(cluster::WorkerService::Stub& stub) : reader(stub.GetTokenizer(&context, {})) {}

  absl::Status ReadAll() {
    for (cluster::GetTokenizerResponse part; reader->Read(&part);) {
    }
    return rpc::FromGrpc(reader->Finish());
  }

  grpc::ClientContext context;
  std::unique_ptr<grpc::ClientReader<cluster::GetTokenizerResponse>> reader;
};

// As many as there may be, none of which reads.
std::vector<std::unique_ptr<Fetch>> FetchAndDoNotRead(cluster::WorkerService::Stub& stub) {
  std::vector<std::unique_ptr<Fetch>> fetches;
  for (size_t i = 0; i < WorkerService::kMaxFetches; ++i) {
    fetches.push_back(std::make_unique<Fetch>(stub));
    fetches.back()->reader->WaitForInitialMetadata();
  }
  return fetches;
}

TEST(TokenizerFetchTest, ThoseUnderWayAreBounded) {
  ScriptedRunner runner(fakes::ByteToken('x'));
  Worker worker(runner, LargeTokenizer());
  const auto idle = cluster::WorkerService::NewStub(worker.ConnectNarrowly());
  const auto stub = cluster::WorkerService::NewStub(worker.Connect());
  const auto fetches = FetchAndDoNotRead(*idle);
  const absl::Status status = Fetch(*stub).ReadAll();
  EXPECT_EQ(ReasonOf(status), "QUEUE_FULL") << status;
  EXPECT_TRUE(RetryAfterOf(status).has_value());
  for (const auto& fetch : fetches) fetch->context.TryCancel();
}

TEST(TokenizerFetchTest, ThoseWhoDoNotReadAreGivenUp) {
  FixtureOptions options = LargeTokenizer();
  options.stall_limit = std::chrono::milliseconds(200);
  ScriptedRunner runner(fakes::ByteToken('x'));
  Worker worker(runner, std::move(options));
  const auto idle = cluster::WorkerService::NewStub(worker.ConnectNarrowly());
  const auto stub = cluster::WorkerService::NewStub(worker.Connect());
  const auto fetches = FetchAndDoNotRead(*idle);
  absl::Status status;
  const auto patience = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  do {
    status = Fetch(*stub).ReadAll();
  } while (!status.ok() && std::chrono::steady_clock::now() < patience);
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_TRUE(absl::IsCancelled(fetches.front()->ReadAll()));
}

TEST(TokenizerFetchTest, AWorkerThatLeavesEndsThem) {
  ScriptedRunner runner(fakes::ByteToken('x'));
  Worker worker(runner, LargeTokenizer());
  const auto stub = cluster::WorkerService::NewStub(worker.ConnectNarrowly());
  Fetch fetch(*stub);
  fetch.reader->WaitForInitialMetadata();
  worker.worker_service().CloseStreams();
  EXPECT_EQ(ReasonOf(fetch.ReadAll()), "DRAINING");
  EXPECT_EQ(ReasonOf(Fetch(*stub).ReadAll()), "DRAINING");
}

}  // namespace
}  // namespace qanat::service
