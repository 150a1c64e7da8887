// What the services of one worker share.
#pragma once

#include <functional>

#include "common/api/worker_info.h"
#include "common/base/clock.h"
#include "common/base/task_pool.h"
#include "common/hash/block_hash.h"
#include "common/rpc/stall_sweeper.h"
#include "common/text/tokenizer.h"
#include "worker/engine/engine.h"
#include "worker/service/live_generations.h"
#include "worker/service/watch/state_publisher.h"
#include "worker/service/worker_metrics.h"

namespace qanat::text {
class ChatTemplate;
}

namespace qanat::service {

// What: references to what outlives every service and every call. Threads: all of it is safe from any.
struct ServiceContext {
  engine::Engine& engine;
  const text::Tokenizer& tokenizer;
  const text::ChatTemplate* chat_template;  // null: none, or not understood
  const api::WorkerInfo& info;
  hash::HashKey hash_key;
  const Clock& clock;
  TaskPool& text_pool;    // encodes prompts: a full one refuses
  TaskPool& stream_pool;  // detokenizes and writes: at most one task a stream
  WorkerMetrics& metrics;
  StatePublisher& publisher;
  LiveGenerations& live;
  rpc::StallSweeper& stall_sweeper;
  std::function<uint64_t()> draw_seed;
};

}  // namespace qanat::service
