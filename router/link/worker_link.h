// How a router reaches one worker, whatever lies between.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include "absl/status/status.h"
#include "common/api/watch.h"
#include "common/api/worker_info.h"
#include "common/base/clock.h"
#include "common/hash/block_hash.h"
#include "common/text/tokenizer.h"
#include "qanat/v1/inference.pb.h"

namespace qanat::text {
class ChatTemplate;
}

namespace qanat::router {

// The reason (common/base/error.h) of a call's UNAVAILABLE end that the worker did not send: the connection
// to it broke. What the worker made of the call is unknown.
inline constexpr std::string_view kWorkerLost = "WORKER_LOST";
// The reason of a worker that takes nothing new because it is about to leave.
inline constexpr std::string_view kWorkerDraining = "DRAINING";

// A worker that can be used: what it tells of itself, and its tokenizer.
struct ReadyWorker {
  api::WorkerInfo info;
  // Shared by all links to workers of this model.
  std::shared_ptr<const text::Tokenizer> tokenizer;         // not null
  std::shared_ptr<const text::ChatTemplate> chat_template;  // null: none, or not understood
};

// A state of a worker's resident set (proto/qanat/cluster/v1/worker.proto). seq 0: none.
struct WatchPosition {
  uint64_t epoch = 0;
  uint64_t seq = 0;

  bool operator==(const WatchPosition&) const = default;
};

// What is to become of a Watch after a frame.
enum class WatchVerdict : uint8_t {
  kContinue,
  kResubscribe,  // it is of no use any more: begin another
  kReconnect,    // the worker is not the one that was ready: begin with OnReady again
};

// What: hears whether the worker can be used, and what it tells of its cache and load. Threads: the link's;
// the first two come one at a time, and so do the three of the Watch, which lie between an OnReady and the
// next but may come during OnDown; OnSign at any time. Must not block.
class LinkObserver {
 public:
  virtual ~LinkObserver() = default;
  // The worker takes calls from now on. An error means that we cannot work with it: the link lets go of it
  // and tries again later.
  virtual absl::Status OnReady(ReadyWorker worker) = 0;
  // The worker cannot be reached, or was refused; also after each further attempt. Comes before the ends of
  // the calls that were lost with it.
  virtual void OnDown(const absl::Status& why) = 0;

  // A Watch begins: the state from which the worker may go on.
  virtual WatchPosition OnWatchBegin() = 0;
  virtual WatchVerdict OnFrame(const api::WatchFrame& frame) = 0;
  // The Watch ended, and not for our verdict: another is begun after a while, unless `why` is UNIMPLEMENTED,
  // which is said by a worker of an earlier release.
  virtual void OnWatchEnd(const absl::Status& why) = 0;

  // Something came from the worker outside the Watch.
  virtual void OnSign() = 0;
};

// Why a worker did not take a call that another one may take.
enum class Redirect : uint8_t { kFull, kDraining };

// What: hears what becomes of one call. Threads: the link's, one call at a time; must not block.
class CallSink {
 public:
  virtual ~CallSink() = default;
  // `load_version`: of the worker's load with this call in it.
  virtual void OnAccepted(uint64_t load_version) = 0;
  virtual void OnResponse(v1::GenerateResponse response) = 0;
  // The last one, exactly once. UNAVAILABLE with reason kWorkerLost when the connection broke.
  // `load_version`: of the worker's load without this call; 0: it never counted it, or was lost.
  virtual void OnEnd(const absl::Status& status, uint64_t load_version) = 0;
  // Instead of all others: the worker did not take the call. `status`: in its own words, for the caller.
  virtual void OnRedirect(Redirect why, const absl::Status& status) = 0;
};

struct WorkerCall {
  v1::GenerateRequest request;  // the prompt as token ids, the seed set
  hash::Namespace cache_namespace;
  std::optional<Time> deadline;
};

// Names a call of one link; never 0.
using CallId = uint64_t;

// What: one worker's end of the line: keeps itself connected, watches the worker and carries calls. Owns the
// connection and, until their end, the calls' sinks. Threads: any. Errors: reach the observer and the sinks.
class WorkerLink {
 public:
  virtual ~WorkerLink() = default;
  // Begins to connect and keeps trying until Close(). Called once. `observer` outlives Close().
  virtual void Open(LinkObserver& observer) = 0;
  // Ends every call (kWorkerLost). After it returns neither observer nor sinks are called. Idempotent. Not
  // from inside one of their functions.
  virtual void Close() = 0;

  // Sends a call; unset, and the sink never called, when the worker is not connected. The sink may be called
  // before this returns, on another thread; never from inside it.
  virtual std::optional<CallId> Start(const WorkerCall& call, std::shared_ptr<CallSink> sink) = 0;
  // Asks the worker to stop it; the sink still hears of its end. Nothing for a call that has ended.
  virtual void Cancel(CallId id) = 0;
  // Asks the worker to compute no more of it for now, since its reader takes nothing, or to go on. Nothing
  // for a call that has ended.
  virtual void SetPaused(CallId id, bool paused) = 0;
};

}  // namespace qanat::router
