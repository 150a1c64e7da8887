// What the index and the credits count that should not be.
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "common/base/log.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "router/cluster/cluster.h"
#include "spdlog/sinks/ostream_sink.h"
#include "tests/fakes/fake_clock.h"
#include "tests/fakes/fake_worker_link.h"
#include "tests/fakes/watched_worker.h"

namespace qanat::router {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

constexpr WorkerId kWorker{0};

class SurprisesTest : public testing::Test {
 protected:
  SurprisesTest() {
    auto link = std::make_unique<fakes::FakeWorkerLink>();
    link_ = link.get();
    cluster_.Add("a:1", std::move(link));
    EXPECT_TRUE(link_->BecomeReady().ok());
    spdlog::set_default_logger(
        std::make_shared<spdlog::logger>("test", std::make_shared<spdlog::sinks::ostream_sink_mt>(lines_)));
  }
  ~SurprisesTest() override {
    cluster_.Close();
    spdlog::set_default_logger(before_);
  }
  // What a tick logs.
  std::string Tick() {
    cluster_.Tick();
    return std::exchange(lines_, std::ostringstream()).str();
  }
  // Makes `count` blocks too many for the credits.
  void Exceed(size_t count) {
    std::vector<hash::BlockHash> blocks(PendingCredits::kDefaultMostEntries + count);
    for (size_t i = 0; i < blocks.size(); ++i) blocks[i] = i + 1;
    cluster_.TryDispatch(kWorker, 0, blocks);
  }

  const std::shared_ptr<spdlog::logger> before_ = spdlog::default_logger();
  std::ostringstream lines_;
  fakes::FakeClock clock_;
  Cluster cluster_{hash::kPublicKey, clock_};
  fakes::FakeWorkerLink* link_ = nullptr;
};

TEST_F(SurprisesTest, BlocksThatAreNotCreditedAreLoggedWhenTheyHaveDoubled) {
  EXPECT_THAT(Tick(), IsEmpty());
  Exceed(1);
  const int64_t refused = cluster_.pending().refused();
  EXPECT_THAT(Tick(), HasSubstr("not credited for want of room: " + std::to_string(refused)));
  EXPECT_THAT(Tick(), IsEmpty()) << "told once";
  Exceed(1);
  ASSERT_EQ(cluster_.pending().refused(), 2 * refused);
  EXPECT_THAT(Tick(), HasSubstr(std::to_string(2 * refused)));
  Exceed(1);
  EXPECT_THAT(Tick(), IsEmpty()) << "half as many again";
}

TEST_F(SurprisesTest, ABlockWithoutItsParentIsLogged) {
  // The worker has the first block of each of these prompts and the last, not the one between.
  std::vector<hash::BlockHash> lasts;
  for (hash::BlockHash last = 100; lasts.size() < 40; ++last) {
    if (hash::Mix(last) % Index::kSample == 0) lasts.push_back(last);
  }
  fakes::WatchedWorker worker(1);
  worker.Change({1});
  worker.Change(lasts);
  for (const api::WatchFrame& frame : worker.Answer(link_->BeginWatch())) link_->Tell(frame);
  const HolderId holder = *cluster_.Snapshot().worker(kWorker).holder;
  for (size_t i = 0; i < lasts.size() && cluster_.index().not_closed() == 0; ++i) {
    int32_t depth = 0;
    cluster_.index().Match({1, 2, lasts[i]}, {holder}, absl::MakeSpan(&depth, 1));
  }
  EXPECT_THAT(Tick(), HasSubstr("a block without its parent in a worker's cache: 1"));
}

}  // namespace
}  // namespace qanat::router
