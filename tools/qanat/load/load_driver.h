// Sends a load to a router or a worker and listens.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "grpcpp/channel.h"
#include "grpcpp/completion_queue.h"
#include "qanat/v1/inference.grpc.pb.h"
#include "tools/qanat/load/tally.h"
#include "tools/qanat/load/traffic.h"

namespace qanat::tools {

struct LoadOptions {
  int streams = 0;     // sessions at once, the next when one ends; 0: each at its arrival
  Duration timeout{};  // of each request; 0: none
  std::string model;   // empty: the only one
  int32_t vocab_size = 0;
  uint64_t seed = 1;
};

struct LoadProgress {
  Duration elapsed{};
  size_t begun = 0;  // sessions
  size_t open = 0;
  size_t ended = 0;  // requests
  int64_t tokens = 0;
};

// What: runs sessions, turn after turn; all answers are greedy, and a server that ends one before the length
// asked for has not served it. Owns its calls and their queue. Threads: one, which sends and receives
// everything; gRPC adds its own for connecting. Errors: a request's end is in its record; a session whose
// turn fails or falls short ends there.
class LoadDriver {
 public:
  LoadDriver(const std::shared_ptr<grpc::Channel>& channel, const Clock& clock, const LoadOptions& options);
  ~LoadDriver();

  // Returns when all sessions have ended, or soon after `interrupted` became true: what is open then is
  // cancelled. Calls `progress` a few times a second. REQUIRES: called once.
  void Run(const std::vector<Session>& sessions, const std::atomic<bool>& interrupted,
           const std::function<void(const LoadProgress&)>& progress);

  const Tally& tally() const { return tally_; }
  // How long Run() took.
  Duration elapsed() const { return elapsed_; }

 private:
  struct Call;

  void BeginDueSessions();
  // `due`: when an open loop was to send it.
  void Send(Call& call, Duration due);
  void OnEvent(Call& call, bool ok);
  void OnMessage(Call& call);
  void OnEnd(Call& call);
  void Interrupt();
  bool closed_loop() const { return options_.streams > 0; }
  Duration Elapsed() const { return clock_.Now() - start_; }
  // When there is something to do although nothing has come.
  Duration NextWake() const;

  const std::unique_ptr<v1::InferenceService::Stub> stub_;
  const Clock& clock_;
  const LoadOptions options_;
  grpc::CompletionQueue queue_;
  const std::vector<Session>* sessions_ = nullptr;
  Time start_{};
  Duration next_progress_{};
  bool stopped_ = false;
  std::list<std::unique_ptr<Call>> calls_;
  LoadProgress progress_;
  Duration elapsed_{};
  Tally tally_;
};

}  // namespace qanat::tools
