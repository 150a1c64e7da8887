// What a router makes of a Watch, in its simplest form.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>

#include "common/api/watch.h"

namespace qanat::fakes {

// What: follows a worker's resident set frame by frame. Threads: one.
class WatchingRouter {
 public:
  // Empty, or what is wrong: then the frame was not applied and the router must subscribe again.
  std::string Take(const api::WatchFrame& frame) {
    ++frames_;
    return std::visit([&](const auto& body) { return Apply(frame, body); }, frame.body);
  }
  // A stream ended: what was not complete is void.
  void Disconnect() { shadow_.reset(); }

  uint64_t epoch() const { return epoch_; }
  uint64_t seq() const { return seq_; }
  const std::set<hash::BlockHash>& resident() const { return resident_; }
  const std::optional<api::Load>& load() const { return load_; }
  int snapshots() const { return snapshots_; }
  int deltas() const { return deltas_; }
  int loads() const { return loads_; }
  int frames() const { return frames_; }

 private:
  struct Shadow {
    uint64_t seq;
    int64_t count;
    std::set<hash::BlockHash> resident;
  };

  static api::Residency ResidencyOf(const std::set<hash::BlockHash>& resident) {
    api::Residency residency;
    for (const hash::BlockHash hash : resident) residency.Add(hash);
    return residency;
  }

  std::string Apply(const api::WatchFrame& frame, const api::SnapshotBegin& begin) {
    if (shadow_.has_value()) return "a snapshot within a snapshot";
    shadow_ = Shadow{frame.seq, begin.resident_count, {}};
    return "";
  }
  std::string Apply(const api::WatchFrame& frame, const api::SnapshotChunk& chunk) {
    if (!shadow_.has_value() || shadow_->seq != frame.seq) return "a chunk of no snapshot";
    for (const hash::BlockHash hash : chunk.stored) {
      if (!shadow_->resident.insert(hash).second) return "stored twice";
    }
    return "";
  }
  std::string Apply(const api::WatchFrame& frame, const api::SnapshotEnd& end) {
    if (!shadow_.has_value() || shadow_->seq != frame.seq) return "the end of no snapshot";
    if (end.residency.resident_count != shadow_->count) return "the snapshot is not what it said";
    if (ResidencyOf(shadow_->resident) != end.residency) return "the snapshot's digest";
    epoch_ = frame.epoch;
    seq_ = frame.seq;
    resident_ = std::move(shadow_->resident);
    shadow_.reset();
    ++snapshots_;
    return "";
  }
  std::string Apply(const api::WatchFrame& frame, const api::Delta& delta) {
    if (shadow_.has_value() || frame.epoch != epoch_) return "a delta of another state";
    if (frame.seq != seq_ + 1) return "the delta's number";
    std::set<hash::BlockHash> next = resident_;
    for (const hash::BlockHash hash : delta.removed) {
      if (next.erase(hash) != 1) return "removed without being there";
    }
    for (const hash::BlockHash hash : delta.stored) {
      if (!next.insert(hash).second) return "stored twice";
    }
    if (ResidencyOf(next) != delta.residency) return "the delta's digest";
    seq_ = frame.seq;
    resident_ = std::move(next);
    ++deltas_;
    return "";
  }
  std::string Apply(const api::WatchFrame& frame, const api::Load& load) {
    if (shadow_.has_value() || frame.epoch != epoch_ || frame.seq != seq_) return "a load of another state";
    if (load.residency != ResidencyOf(resident_)) return "the load's digest";
    load_ = load;
    ++loads_;
    return "";
  }

  uint64_t epoch_ = 0;
  uint64_t seq_ = 0;
  std::set<hash::BlockHash> resident_;
  std::optional<Shadow> shadow_;
  std::optional<api::Load> load_;
  int snapshots_ = 0, deltas_ = 0, loads_ = 0, frames_ = 0;
};

}  // namespace qanat::fakes
