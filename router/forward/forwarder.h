// From an admitted request to a worker, and back.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "common/base/clock.h"
#include "common/hash/block_hash.h"
#include "qanat/v1/inference.pb.h"
#include "router/cluster/cluster.h"
#include "router/forward/forward_metrics.h"
#include "router/routing/policy.h"

namespace qanat::router {

// What: takes what a stream brings. Threads: the links', one call at a time; must not block.
class StreamSink {
 public:
  virtual ~StreamSink() = default;
  // `tokens`: how many the response covers, whether it holds their ids or not.
  virtual void OnResponse(v1::GenerateResponse response, int32_t tokens) = 0;
  // The last one, exactly once.
  virtual void OnEnd(const absl::Status& status) = 0;
};

struct ForwardRequest {
  v1::GenerateRequest request;         // the prompt as token ids, the seed and max_tokens set
  std::shared_ptr<const Model> model;  // shared: the request may outlive the model's last worker
  hash::Namespace cache_namespace;
  std::optional<Time> deadline;
};

// A request under way. Threads: any.
class ForwardedStream {
 public:
  virtual ~ForwardedStream() = default;
  // The caller is not interested any more; the sink still hears of the end. Idempotent.
  virtual void Cancel() = 0;
  // The caller takes nothing for now, or does again: the worker computes no more of it than is on the way.
  virtual void SetPaused(bool paused) = 0;
};

// What: carries each request to one worker and its answer back. Owns nothing of a request; outlives every
// stream, and is outlived by what it is given. Threads: any. Errors: reach the stream's sink.
//
// Before the first token a request whose worker was lost, or refused it for want of room, goes to another,
// and its caller sees nothing of it: after one loss and two refusals at most. After the first token a lost
// worker ends the stream: a `finish` ERROR for each choice that had not finished, then UNAVAILABLE, reason
// WORKER_LOST; OK where every choice had finished STOP or LENGTH.
class Forwarder {
 public:
  // `hash_key`: the cluster key, under which workers name blocks.
  Forwarder(Cluster& cluster, const RoutingPolicy& policy, const Clock& clock, ForwardMetrics& metrics,
            const hash::HashKey& hash_key)
      : cluster_(cluster), policy_(policy), clock_(clock), metrics_(metrics), hash_key_(hash_key) {}

  // The sink may be called before this returns, also from inside it (OnEnd of a request that no worker can
  // take). Shared: links hold a stream until its end, the caller for as long as it may cancel.
  std::shared_ptr<ForwardedStream> Start(ForwardRequest request, std::shared_ptr<StreamSink> sink);

 private:
  Cluster& cluster_;
  const RoutingPolicy& policy_;
  const Clock& clock_;
  ForwardMetrics& metrics_;
  const hash::HashKey hash_key_;
};

}  // namespace qanat::router
