#include "worker/service/watch/resident_log.h"

#include <numeric>
#include <variant>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/fakes/watching_router.h"

namespace qanat::service {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Hashes = std::vector<hash::BlockHash>;

constexpr uint64_t kEpoch = 77;

class ResidentLogTest : public testing::Test {
 protected:
  static ResidentLog::Options Options() {
    ResidentLog::Options options;
    options.frame_hashes = 4;
    options.log_hashes = 3 * (4 + ResidentLog::kDeltaCost);
    return options;
  }
  static Hashes Range(hash::BlockHash first, int count) {
    Hashes hashes(count);
    std::iota(hashes.begin(), hashes.end(), first);
    return hashes;
  }
  // The frames until the reader is up to date, all of them taken by `router`.
  std::vector<api::WatchFrame> ReadAll(ResidentLog::Reader& reader, fakes::WatchingRouter& router) {
    std::vector<api::WatchFrame> frames;
    while (std::optional<api::WatchFrame> frame = log_.Next(reader)) {
      EXPECT_EQ(frame->epoch, kEpoch);
      EXPECT_EQ(router.Take(*frame), "");
      frames.push_back(*std::move(frame));
    }
    return frames;
  }
  void ExpectResident(const fakes::WatchingRouter& router, const Hashes& hashes) {
    EXPECT_EQ(router.resident(), std::set<hash::BlockHash>(hashes.begin(), hashes.end()));
    log_.CheckInvariants();
  }
  template <typename Body>
  static bool Is(const api::WatchFrame& frame) {
    return std::holds_alternative<Body>(frame.body);
  }

  ResidentLog log_{kEpoch, Options()};
  fakes::WatchingRouter router_;
};

TEST_F(ResidentLogTest, BeginsWithTheEmptySetAsStateOne) {
  ResidentLog::Reader reader = log_.Begin(0, 0);
  const auto frames = ReadAll(reader, router_);
  ASSERT_EQ(frames.size(), 2u);
  EXPECT_TRUE(Is<api::SnapshotBegin>(frames[0]) && Is<api::SnapshotEnd>(frames[1]));
  EXPECT_EQ(router_.seq(), 1u);
  ExpectResident(router_, {});
}

TEST_F(ResidentLogTest, ASnapshotComesInChunksAndShowsOneState) {
  log_.Append({Range(1, 10), {}});
  ResidentLog::Reader reader = log_.Begin(0, 0);
  ASSERT_TRUE(log_.Next(reader).has_value());  // its beginning fixes the state
  log_.Append({Range(11, 1), {}});
  ResidentLog::Reader again = log_.Begin(0, 0);
  const auto frames = ReadAll(again, router_);
  ASSERT_EQ(frames.size(), 1u + 3 + 1 + 1);
  for (size_t i = 0; i < 5; ++i) EXPECT_EQ(frames[i].seq, 4u) << "the snapshot that another one reads";
  EXPECT_EQ(std::get<api::SnapshotChunk>(frames[1].body).stored.size(), 4u);
  EXPECT_TRUE(Is<api::Delta>(frames[5]));
  ExpectResident(router_, Range(1, 11));
  EXPECT_EQ(log_.num_snapshots(), 2);
}

TEST_F(ResidentLogTest, LargeChangesAreCutIntoDeltasThatRemoveFirst) {
  ResidentLog::Reader reader = log_.Begin(0, 0);
  ReadAll(reader, router_);
  log_.Append({Range(1, 6), {}});
  ASSERT_EQ(ReadAll(reader, router_).size(), 2u);
  log_.Append({Range(11, 5), Range(1, 3)});
  const auto frames = ReadAll(reader, router_);
  ASSERT_EQ(frames.size(), 2u);
  const auto& first = std::get<api::Delta>(frames[0].body);
  const auto& second = std::get<api::Delta>(frames[1].body);
  EXPECT_THAT(first.removed, ElementsAre(1, 2, 3));
  EXPECT_THAT(first.stored, ElementsAre(11));
  EXPECT_THAT(second.removed, IsEmpty());
  EXPECT_THAT(second.stored, ElementsAre(12, 13, 14, 15));
}

TEST_F(ResidentLogTest, AReaderInsideTheLogResumes) {
  log_.Append({Range(1, 2), {}});
  ResidentLog::Reader reader = log_.Begin(0, 0);
  ReadAll(reader, router_);
  log_.Append({Range(3, 2), {}});
  log_.Append({{}, {3}});
  log_.SetLoad({});
  ResidentLog::Reader resumed = log_.Begin(kEpoch, router_.seq());
  const auto frames = ReadAll(resumed, router_);
  ASSERT_EQ(frames.size(), 2u) << "no snapshot, and no load of before it came";
  EXPECT_TRUE(Is<api::Delta>(frames[0]) && Is<api::Delta>(frames[1]));
  ExpectResident(router_, {1, 2, 4});
  EXPECT_THAT(ReadAll(resumed, router_), IsEmpty());
}

TEST_F(ResidentLogTest, AnyOtherReaderGetsASnapshot) {
  for (hash::BlockHash hash = 1; hash <= 10; ++hash) log_.Append({{hash}, {}});
  for (const auto& [epoch, seq] : std::vector<std::pair<uint64_t, uint64_t>>{
           {kEpoch, 0}, {kEpoch, 1}, {kEpoch, 7}, {kEpoch, 12}, {kEpoch + 1, 11}}) {
    fakes::WatchingRouter router;
    ResidentLog::Reader reader = log_.Begin(epoch, seq);
    const auto frames = ReadAll(reader, router);
    ASSERT_FALSE(frames.empty());
    EXPECT_TRUE(Is<api::SnapshotBegin>(frames[0])) << epoch << " " << seq;
    ExpectResident(router, Range(1, 10));
  }
  // Three deltas of one hash fit.
  ResidentLog::Reader reader = log_.Begin(kEpoch, 8);
  EXPECT_EQ(log_.Next(reader)->seq, 9u);
}

TEST_F(ResidentLogTest, AReaderThatFallsBehindBeginsAgain) {
  ResidentLog::Reader reader = log_.Begin(0, 0);
  ReadAll(reader, router_);
  log_.Append({Range(1, 30), {}});
  const auto frames = ReadAll(reader, router_);
  EXPECT_TRUE(Is<api::SnapshotBegin>(frames[0]));
  ExpectResident(router_, Range(1, 30));
  EXPECT_EQ(router_.snapshots(), 2);
}

TEST_F(ResidentLogTest, ALoadGoesBeforeDeltasWithTheReadersOwnResidency) {
  ResidentLog::Reader reader = log_.Begin(0, 0);
  ReadAll(reader, router_);
  log_.Append({Range(1, 2), {}});
  api::Load load;
  load.running = 3;
  log_.SetLoad(load);
  const auto frames = ReadAll(reader, router_);
  ASSERT_EQ(frames.size(), 2u);
  EXPECT_EQ(std::get<api::Load>(frames[0].body).running, 3);
  EXPECT_EQ(std::get<api::Load>(frames[0].body).residency.resident_count, 0);
  EXPECT_TRUE(Is<api::Delta>(frames[1]));
  log_.SetLoad(load);
  log_.SetLoad(load);
  EXPECT_EQ(ReadAll(reader, router_).size(), 1u) << "only the newest";
}

TEST_F(ResidentLogTest, ALoadNeverComesWithinASnapshot) {
  log_.Append({Range(1, 10), {}});
  ResidentLog::Reader reader = log_.Begin(0, 0);
  log_.SetLoad({});
  const auto frames = ReadAll(reader, router_);
  ASSERT_EQ(frames.size(), 6u);
  EXPECT_TRUE(Is<api::SnapshotEnd>(frames[4]) && Is<api::Load>(frames[5]));
}

}  // namespace
}  // namespace qanat::service
