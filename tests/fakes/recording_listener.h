// A state listener that follows the engine's cache, and holds the engine to its promises.
#pragma once

#include <atomic>
#include <set>

#include "common/base/check.h"
#include "worker/engine/state_listener.h"

namespace qanat::fakes {

// Aborts on a change of nothing, and on one that does not lead on from the changes before. Threads: as the
// engine calls it; what it keeps of residency is for whoever steps the engine.
class RecordingListener final : public engine::StateListener {
 public:
  void OnResidencyChange(const hash::SetDelta& delta) override {
    QANAT_CHECK(!delta.empty());
    for (const hash::BlockHash stored : delta.stored) QANAT_CHECK(resident_.insert(stored).second);
    for (const hash::BlockHash removed : delta.removed) QANAT_CHECK(resident_.erase(removed) == 1);
    ++residency_changes_;
  }
  void OnLoadChange() override { load_changes_.fetch_add(1, std::memory_order_relaxed); }

  const std::set<hash::BlockHash>& resident() const { return resident_; }
  int residency_changes() const { return residency_changes_; }
  int load_changes() const { return load_changes_.load(std::memory_order_relaxed); }

 private:
  std::set<hash::BlockHash> resident_;
  int residency_changes_ = 0;
  std::atomic<int> load_changes_ = 0;
};

}  // namespace qanat::fakes
