// How busy a worker is, as it tells the routers.
#pragma once

#include "common/api/watch.h"
#include "worker/engine/engine.h"
#include "worker/service/engine_loop.h"

namespace qanat::service {

// All but the residency. Any thread.
api::Load LoadOf(const engine::Engine& engine, const EngineLoop& loop, const Clock& clock);

}  // namespace qanat::service
