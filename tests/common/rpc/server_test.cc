#include "common/rpc/server.h"

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "common/base/error.h"
#include "common/base/mutex.h"
#include "common/rpc/options.h"
#include "common/rpc/status.h"
#include "gmock/gmock.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/grpcpp.h"
#include "gtest/gtest.h"
#include "qanat/v1/inference.grpc.pb.h"
#include "qanat/v1/model.grpc.pb.h"

namespace qanat::rpc {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr auto kLong = std::chrono::seconds(30);

// Answers ListModels with a status, and notes the deadline it was called with.
class FakeModels final : public v1::ModelService::CallbackService {
 public:
  grpc::ServerUnaryReactor* ListModels(grpc::CallbackServerContext* context, const v1::ListModelsRequest*,
                                       v1::ListModelsResponse* response) override {
    deadline = DeadlineOf(*context, clock);
    loopback = IsLoopbackPeer(context->peer());
    response->add_models()->set_id("tiny");
    grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
    reactor->Finish(ToGrpc(status));
    return reactor;
  }

  RealClock clock;
  absl::Status status;
  std::optional<Time> deadline;
  bool loopback = false;
};

// Never answers Generate until the call is cancelled, and says so.
class StuckGenerate final : public v1::InferenceService::CallbackService {
 public:
  grpc::ServerWriteReactor<v1::GenerateResponse>* Generate(grpc::CallbackServerContext*,
                                                           const v1::GenerateRequest*) override {
    class Reactor final : public grpc::ServerWriteReactor<v1::GenerateResponse> {
     public:
      Reactor() { StartSendInitialMetadata(); }
      void OnCancel() override { Finish(grpc::Status(grpc::StatusCode::CANCELLED, "cancelled")); }
      void OnDone() override { delete this; }
    };
    return new Reactor;
  }
};

class ServerTest : public ::testing::Test {
 protected:
  ServerTest() {
    auto server = Server::Start({"127.0.0.1:0", {&models_, &stuck_}});
    EXPECT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    channel_ = MakeChannel(server_->address());
  }

  absl::Status List(grpc::ClientContext& context) {
    v1::ListModelsResponse response;
    auto stub = v1::ModelService::NewStub(channel_);
    return FromGrpc(stub->ListModels(&context, {}, &response));
  }

  FakeModels models_;
  StuckGenerate stuck_;
  std::unique_ptr<Server> server_;
  std::shared_ptr<grpc::Channel> channel_;
};

TEST_F(ServerTest, ServesAtThePortItChose) {
  EXPECT_THAT(server_->address(), HasSubstr("127.0.0.1:"));
  EXPECT_THAT(server_->address(), Not(HasSubstr(":0")));
  grpc::ClientContext context;
  EXPECT_TRUE(List(context).ok());
  EXPECT_FALSE(models_.deadline.has_value());
  EXPECT_TRUE(models_.loopback);
}

TEST_F(ServerTest, CarriesErrorDetailsToTheClient) {
  models_.status = WithRetryAfter(WithReason(absl::ResourceExhaustedError("full"), "QUEUE_FULL"),
                                  std::chrono::milliseconds(30));
  grpc::ClientContext context;
  EXPECT_EQ(List(context), models_.status);
}

TEST_F(ServerTest, SeesTheDeadlineOfTheCall) {
  const RealClock clock;
  const Time deadline = clock.Now() + kLong;
  grpc::ClientContext context;
  SetDeadline(context, deadline, clock);
  ASSERT_TRUE(List(context).ok());
  ASSERT_TRUE(models_.deadline.has_value());
  EXPECT_LT(*models_.deadline - deadline, std::chrono::seconds(1));
  EXPECT_GT(*models_.deadline - deadline, -std::chrono::seconds(1));
}

TEST_F(ServerTest, RefusesAPortThatIsTaken) {
  const auto second = Server::Start({server_->address(), {}});
  EXPECT_EQ(second.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(second.status().message()), HasSubstr(server_->address()));
  EXPECT_FALSE(Server::Start({"nowhere.invalid:1", {}}).ok());
  EXPECT_FALSE(Server::Start({"no port", {}}).ok());
}

TEST_F(ServerTest, ShutdownCancelsWhatIsStuckAndReturns) {
  grpc::ClientContext context;
  auto stub = v1::InferenceService::NewStub(channel_);
  auto stream = stub->Generate(&context, {});
  stream->WaitForInitialMetadata();  // the call has reached the server
  server_->Shutdown(std::chrono::milliseconds(1));
  v1::GenerateResponse response;
  EXPECT_FALSE(stream->Read(&response));
  EXPECT_FALSE(stream->Finish().ok());
}

// One call of grpc.health.v1.Health/Check, in raw bytes, since the system ships no health.proto: the answer's
// status (1 serving, 2 not serving), or -1 for an error.
int Health(const std::shared_ptr<grpc::Channel>& channel, const std::string& service) {
  const std::string bytes =
      service.empty() ? std::string() : std::string("\x0a") + static_cast<char>(service.size()) + service;
  const grpc::Slice slice(bytes);
  const grpc::ByteBuffer request(&slice, 1);
  grpc::ClientContext context;
  grpc::CompletionQueue queue;
  auto call =
      grpc::GenericStub(channel).PrepareUnaryCall(&context, "/grpc.health.v1.Health/Check", request, &queue);
  grpc::ByteBuffer answer;
  grpc::Status status;
  call->StartCall();
  call->Finish(&answer, &status, nullptr);
  void* tag = nullptr;
  bool ok = false;
  queue.Next(&tag, &ok);
  grpc::Slice body;
  if (!status.ok() || !answer.DumpToSingleSlice(&body).ok() || body.size() != 2) return -1;
  return body.begin()[1];
}

TEST_F(ServerTest, AnswersHealthByService) {
  EXPECT_EQ(Health(channel_, ""), 1);
  EXPECT_EQ(Health(channel_, "readiness"), -1);
  server_->SetServing("readiness", true);
  EXPECT_EQ(Health(channel_, "readiness"), 1);
  server_->SetServing("readiness", false);
  EXPECT_EQ(Health(channel_, "readiness"), 2);
  server_->SetServing("", false);
  EXPECT_EQ(Health(channel_, ""), 2);
}

}  // namespace
}  // namespace qanat::rpc
