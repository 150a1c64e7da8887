// From a plan to what a model runner computes.
#pragma once

#include "common/base/step_model.h"
#include "worker/engine/model_runner.h"
#include "worker/engine/step_plan.h"
#include "worker/kv/kv_manager.h"

namespace qanat::engine {

struct BuiltBatch {
  ModelBatch batch;
  StepShape shape;  // what the step model prices it by
};

// Nothing is copied: the batch points into the plan's sequences, their tables and drafts, which stay as they
// are until it was collected. Aborts where a shared block would be written.
BuiltBatch BuildBatch(const StepPlan& plan, const kv::KvManager& kv);

}  // namespace qanat::engine
