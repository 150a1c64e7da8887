#include "router/cluster/watch_replica.h"

#include <utility>
#include <variant>

namespace qanat::router {

std::string_view CauseName(ResyncCause cause) {
  switch (cause) {
    case ResyncCause::kEpoch:
      return "epoch";
    case ResyncCause::kSequence:
      return "sequence";
    case ResyncCause::kDigest:
      return "digest";
    case ResyncCause::kRing:
      return "ring";
    case ResyncCause::kReconnect:
      return "reconnect";
  }
  return "";
}

WatchReplica::~WatchReplica() {
  Forget();
  CloseRetired();
}

void WatchReplica::Meet(uint64_t epoch, int64_t capacity) {
  if (epoch != epoch_) {
    if (holder_.has_value()) Count(ResyncCause::kEpoch);
    Forget();
    broke_ = false;  // the epoch says it
  }
  epoch_ = epoch;
  capacity_ = capacity;
}

WatchPosition WatchReplica::Begin() {
  if (std::exchange(broke_, false)) Count(ResyncCause::kReconnect);
  DropShadow();
  in_step_ = false;
  return position_;
}

void WatchReplica::End() {
  DropShadow();
  in_step_ = false;
  broke_ = true;
}

void WatchReplica::Forget() {
  DropShadow();
  in_step_ = false;
  position_ = {};
  if (holder_.has_value()) retired_.push_back(*holder_);
  holder_.reset();
}

void WatchReplica::CloseRetired() {
  for (const HolderId holder : retired_) index_.Close(holder);
  retired_.clear();
}

WatchVerdict WatchReplica::Apply(const api::WatchFrame& frame) {
  if (frame.epoch != epoch_) {
    Forget();
    Resync(ResyncCause::kEpoch);
    return WatchVerdict::kReconnect;
  }
  return std::visit([&](const auto& body) { return Read(frame.seq, body); }, frame.body);
}

WatchVerdict WatchReplica::Read(uint64_t seq, const api::SnapshotBegin& begin) {
  if (position_.seq != 0) Count(ResyncCause::kRing);
  DropShadow();
  shadow_ = index_.Open(capacity_);
  shadow_seq_ = seq;
  return WatchVerdict::kContinue;
}

WatchVerdict WatchReplica::Read(uint64_t seq, const api::SnapshotChunk& chunk) {
  if (!shadow_.has_value() || seq != shadow_seq_) return Resync(ResyncCause::kSequence);
  index_.Add(*shadow_, chunk.stored);
  return WatchVerdict::kContinue;
}

WatchVerdict WatchReplica::Read(uint64_t seq, const api::SnapshotEnd& end) {
  if (!shadow_.has_value() || seq != shadow_seq_) return Resync(ResyncCause::kSequence);
  if (index_.Residency(*shadow_) != end.residency) return Resync(ResyncCause::kDigest);
  if (holder_.has_value()) retired_.push_back(*holder_);
  holder_ = std::exchange(shadow_, std::nullopt);
  position_ = {epoch_, seq};
  in_step_ = true;
  return WatchVerdict::kContinue;
}

WatchVerdict WatchReplica::Read(uint64_t seq, const api::Delta& delta) {
  if (position_.seq == 0 || shadow_.has_value() || seq != position_.seq + 1) {
    return Resync(ResyncCause::kSequence);
  }
  // Removed first: a full cache has no room for more than it holds.
  index_.Remove(*holder_, delta.removed);
  index_.Add(*holder_, delta.stored);
  position_.seq = seq;
  return Compare(delta.residency);
}

WatchVerdict WatchReplica::Read(uint64_t seq, const api::Load& load) {
  // Before the first state there is nothing to compare, and a snapshot is compared at its end.
  if (position_.seq == 0 || shadow_.has_value()) return WatchVerdict::kContinue;
  if (seq != position_.seq) return Resync(ResyncCause::kSequence);
  return Compare(load.residency);
}

WatchVerdict WatchReplica::Compare(const hash::Residency& told) {
  if (index_.Residency(*holder_) != told) {
    position_ = {};
    return Resync(ResyncCause::kDigest);
  }
  in_step_ = true;
  return WatchVerdict::kContinue;
}

WatchVerdict WatchReplica::Resync(ResyncCause cause) {
  Count(cause);
  DropShadow();
  in_step_ = false;
  return WatchVerdict::kResubscribe;
}

void WatchReplica::DropShadow() {
  // Nobody was told of it: it needs no retirement.
  if (shadow_.has_value()) index_.Close(*shadow_);
  shadow_.reset();
}

}  // namespace qanat::router
