// One worker's resident blocks, as its Watch tells them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "common/api/watch.h"
#include "router/index/index.h"
#include "router/link/worker_link.h"
#include "router/snapshot/cluster_snapshot.h"

namespace qanat::router {

// Why a worker's blocks had to be asked for again.
enum class ResyncCause : uint8_t {
  kEpoch,      // it restarted
  kSequence,   // a frame is missing, or came twice
  kDigest,     // what is here is not what it has
  kRing,       // it could not go on from our state and sent a snapshot
  kReconnect,  // the stream broke
};
inline constexpr ResyncCause kResyncCauses[] = {ResyncCause::kEpoch, ResyncCause::kSequence,
                                                ResyncCause::kDigest, ResyncCause::kRing,
                                                ResyncCause::kReconnect};
// "epoch", "sequence", "digest", "ring", "reconnect".
std::string_view CauseName(ResyncCause cause);

// What: applies the frames of one worker to the index and finds out when they do not fit. Owns the worker's
// holders; the index outlives it. Threads: one at a time. Errors: are verdicts, counted by cause.
//
// A snapshot fills a holder of its own, which takes the place of the old one at its end: until then decisions
// see the old state. A holder that was replaced stays open until CloseRetired(), so that the new one can be
// published first.
//
// Invariants: (1) position_.seq != 0 exactly while holder_ is known to be a state of the worker; (2) shadow_
// is set exactly between the begin and the end of a snapshot; (3) no holder is two of holder_, shadow_ and
// retired_.
class WatchReplica {
 public:
  explicit WatchReplica(Index& index) : index_(index) {}
  ~WatchReplica();
  WatchReplica(const WatchReplica&) = delete;
  WatchReplica& operator=(const WatchReplica&) = delete;

  // The worker is there, under this epoch and with so many blocks. What was known of another epoch is
  // dropped.
  void Meet(uint64_t epoch, int64_t capacity);
  // A Watch begins: where from. After Meet.
  WatchPosition Begin();
  WatchVerdict Apply(const api::WatchFrame& frame);
  // The Watch broke; what is known is kept.
  void End();
  // Drops what is known.
  void Forget();

  // What decisions may credit the worker with.
  std::optional<HolderId> holder() const { return holder_; }
  // Closes what holder() returned before.
  void CloseRetired();

  // As of the last frame of a Watch that goes on, the holder is the worker's cache.
  bool in_step() const { return in_step_; }
  int64_t blocks() const { return holder_.has_value() ? index_.Residency(*holder_).resident_count : 0; }
  int64_t resyncs(ResyncCause cause) const { return resyncs_[static_cast<size_t>(cause)]; }

 private:
  WatchVerdict Read(uint64_t seq, const api::SnapshotBegin& begin);
  WatchVerdict Read(uint64_t seq, const api::SnapshotChunk& chunk);
  WatchVerdict Read(uint64_t seq, const api::SnapshotEnd& end);
  WatchVerdict Read(uint64_t seq, const api::Delta& delta);
  WatchVerdict Read(uint64_t seq, const api::Load& load);

  // The frame before did not fit.
  WatchVerdict Resync(ResyncCause cause);
  // The holder is as the worker says it is, or not: then it is no state of it.
  WatchVerdict Compare(const hash::Residency& told);
  void Count(ResyncCause cause) { ++resyncs_[static_cast<size_t>(cause)]; }
  void DropShadow();

  Index& index_;
  uint64_t epoch_ = 0;
  int64_t capacity_ = 0;
  std::optional<HolderId> holder_;
  WatchPosition position_;  // of holder_
  std::optional<HolderId> shadow_;
  uint64_t shadow_seq_ = 0;
  std::vector<HolderId> retired_;
  bool in_step_ = false;
  bool broke_ = false;  // since the latest Begin
  std::array<int64_t, std::size(kResyncCauses)> resyncs_{};
};

}  // namespace qanat::router
