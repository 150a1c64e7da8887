// Who follows what an engine's cache holds and how busy the engine is.
#pragma once

#include "common/hash/net_change.h"

namespace qanat::engine {

// What: hears of changes as they happen; the state itself is in Engine::Snapshot(). Outlives the engine.
// Threads: as said below. Must not block: the engine waits for it. Errors: none.
class StateListener {
 public:
  virtual ~StateListener() = default;
  // Once a step that changed it: what became resident in the prefix cache and what is no more, since the last
  // call. After the step's commit, before any sink hears of the step. On the engine thread.
  virtual void OnResidencyChange(const hash::SetDelta& delta) = 0;
  // Requests came or ended, or the engine began to drain. On any thread.
  virtual void OnLoadChange() = 0;
};

}  // namespace qanat::engine
