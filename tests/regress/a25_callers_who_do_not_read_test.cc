// A25: callers who stop reading do not hold their places at the router, whatever became of their answers.
#include <chrono>
#include <memory>
#include <string>

#include "common/base/error.h"
#include "gtest/gtest.h"
#include "tests/fakes/narrow_channel.h"
#include "tests/router/service/service_fixture.h"

namespace qanat::router {
namespace {

class A25CallersWhoDoNotReadTest : public ServiceTest {
 protected:
  A25CallersWhoDoNotReadTest() : ServiceTest(/*stall_limit=*/std::chrono::milliseconds(400)) {
    reader_ = v1::InferenceService::NewStub(fakes::MakeNarrowChannel(server_->address()))
                  ->Generate(&context_, Ask("x"));
    id_ = worker_.NextStart().call_id();
  }

  void Send(size_t bytes) {
    v1::GenerateResponse response = Letter(sent_++, 'a');
    response.set_text(std::string(bytes, 'a'));
    worker_.Send(id_, response);
  }
  bool PlaceIsFree() {
    return Await([this] { return admission_.usage().requests == 0; });
  }
  absl::Status End() { return Read(*reader_).status; }

  Worker& worker_ = AddWorker({.mode = Worker::Mode::kHold});
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReader<v1::GenerateResponse>> reader_;
  uint64_t id_ = 0;
  int sent_ = 0;
};

// Too little waits for a pause, so that the worker hears of nothing.
TEST_F(A25CallersWhoDoNotReadTest, AnAnswerThatIsCompleteIsGivenUp) {
  for (int i = 0; i < 20; ++i) Send(10 << 10);
  worker_.SendEnd(id_, absl::OkStatus());
  ASSERT_TRUE(Await([this] { return InFlight() == 0; }));
  EXPECT_TRUE(PlaceIsFree());
  EXPECT_TRUE(absl::IsCancelled(End()));
  EXPECT_TRUE(Await([this] {
    return exporter_.Text().find("qanat_router_requests_total{code=\"CANCELLED\",model=\"tiny\"} 1\n") !=
           std::string::npos;
  }));
}

TEST_F(A25CallersWhoDoNotReadTest, ACallThatItsWorkerPausedAndGaveUpIsGivenUp) {
  for (int i = 0; i < 2000 && !worker_.IsPaused(id_); ++i) Send(32 << 10);
  ASSERT_TRUE(worker_.IsPaused(id_));
  worker_.SendEnd(id_, ReaderStalled(std::chrono::seconds(30)));
  EXPECT_TRUE(PlaceIsFree());
  EXPECT_TRUE(absl::IsCancelled(End()));
}

TEST_F(A25CallersWhoDoNotReadTest, TheWorkerOfACallThatIsGivenUpIsFreed) {
  for (int i = 0; i < 20; ++i) Send(10 << 10);
  EXPECT_TRUE(worker_.AwaitCancel(id_));
  EXPECT_TRUE(PlaceIsFree());
  worker_.SendEnd(id_, absl::CancelledError("as you wish"));
  EXPECT_TRUE(Await([this] { return InFlight() == 0; }));
}

}  // namespace
}  // namespace qanat::router
