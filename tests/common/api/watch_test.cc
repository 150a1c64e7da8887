#include "common/api/watch.h"

#include <limits>
#include <vector>

#include "common/base/error.h"
#include "gtest/gtest.h"

namespace qanat::api {
namespace {

WatchFrame ThereAndBack(const WatchFrame& frame) {
  const absl::StatusOr<WatchFrame> back = FromProto(ToProto(frame));
  EXPECT_TRUE(back.ok()) << back.status();
  return back.value_or(WatchFrame{});
}

TEST(WatchTest, DeltasAndSnapshotsGoThereAndBack) {
  Residency residency;
  for (hash::BlockHash hash : {1, 2, 3}) residency.Add(hash);
  const WatchFrame delta = ThereAndBack({7, 9, Delta{{1, 2, 3}, {4}, residency}});
  EXPECT_EQ(delta.epoch, 7u);
  EXPECT_EQ(delta.seq, 9u);
  const auto& body = std::get<Delta>(delta.body);
  EXPECT_EQ(body.stored, (std::vector<hash::BlockHash>{1, 2, 3}));
  EXPECT_EQ(body.removed, (std::vector<hash::BlockHash>{4}));
  EXPECT_EQ(body.residency, residency);

  EXPECT_EQ(std::get<SnapshotBegin>(ThereAndBack({1, 1, SnapshotBegin{42}}).body).resident_count, 42);
  EXPECT_EQ(std::get<SnapshotChunk>(ThereAndBack({1, 1, SnapshotChunk{{5, 6}}}).body).stored.size(), 2u);
  EXPECT_EQ(std::get<SnapshotEnd>(ThereAndBack({1, 1, SnapshotEnd{residency}}).body).residency, residency);
}

TEST(WatchTest, LoadGoesThereAndBack) {
  Load load;
  load.load_version = 3;
  load.running = 4;
  load.waiting = 5;
  load.waiting_tokens = 6;
  load.prefill_tokens = 7;
  load.context_tokens = 8;
  load.total_blocks = 30;
  load.free_blocks = 10;
  load.cached_blocks = 11;
  load.draining = true;
  load.step_id = 12;
  load.step_age = std::chrono::milliseconds(13);
  load.step_model = {1, 2, 3, 4, 5, 6};
  load.residency = {14, 15};
  const Load back = std::get<Load>(ThereAndBack({1, 2, load}).body);
  EXPECT_EQ(ToProto(WatchFrame{1, 2, back}).SerializeAsString(),
            ToProto(WatchFrame{1, 2, load}).SerializeAsString());
  EXPECT_EQ(back.step_model, load.step_model);
  EXPECT_EQ(back.step_age, load.step_age);
  EXPECT_EQ(back.prefill_tokens, 7);
}

TEST(WatchTest, RefusesWhatNoWorkerSays) {
  EXPECT_EQ(FieldOf(FromProto(cluster::v1::WatchResponse()).status()), "body");
  Load load;
  load.total_blocks = 3;
  load.free_blocks = 4;
  EXPECT_EQ(FieldOf(FromProto(ToProto(WatchFrame{1, 1, load})).status()), "load");
  load.total_blocks = 4;
  load.step_model.token_us = -1;
  EXPECT_EQ(FieldOf(FromProto(ToProto(WatchFrame{1, 1, load})).status()), "load.step_model");
  load.step_model.token_us = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(FieldOf(FromProto(ToProto(WatchFrame{1, 1, load})).status()), "load.step_model");
}

}  // namespace
}  // namespace qanat::api
