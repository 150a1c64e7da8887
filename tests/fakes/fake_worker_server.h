// A worker's gRPC face on loopback, without an engine: it answers each prompt with the prompt.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/base/mutex.h"
#include "common/rpc/server.h"
#include "common/text/tokenizer.h"
#include "qanat/cluster/v1/worker.grpc.pb.h"

namespace qanat::fakes {

// What: serves qanat.cluster.v1 with a vocabulary of bytes (byte_level_vocabulary.h). Owns its server.
// Threads: any.
class FakeWorkerServer final : public cluster::v1::WorkerService::Service {
 public:
  // What becomes of a call that was started.
  enum class Mode {
    kEcho,    // accepted, one response a token of the prompt, OK
    kHold,    // accepted, and then nothing but what the test sends
    kRefuse,  // ended with `refusal`
  };

  struct Options {
    Mode mode = Mode::kEcho;
    std::string listen = "127.0.0.1:0";
    absl::Status refusal = {};
    cluster::v1::Redirect redirect = cluster::v1::REDIRECT_UNSPECIFIED;  // with the refusal
    std::string sha256 = {};  // of the tokenizer, when not the right one
    bool watch = true;        // false: UNIMPLEMENTED, as a worker of an earlier release
  };

  explicit FakeWorkerServer(const Options& options);
  ~FakeWorkerServer() override;

  const std::string& address() const { return server_->address(); }
  // What GetInfo says from now on.
  cluster::v1::GetInfoResponse info() const EXCLUDES(mu_);
  void SetInfo(const cluster::v1::GetInfoResponse& info) EXCLUDES(mu_);

  // Waits for the next StartCall, in order of arrival; 10 seconds at most, then it is empty (call_id 0).
  cluster::v1::StartCall NextStart() EXCLUDES(mu_);
  // Waits until a call was cancelled, 10 seconds at most.
  bool AwaitCancel(uint64_t call_id) EXCLUDES(mu_);
  // The router's latest word about a call.
  bool IsPaused(uint64_t call_id) const EXCLUDES(mu_);
  // How often the tokenizer was fetched.
  int tokenizer_calls() const EXCLUDES(mu_);

  // News on the only session there is.
  void Send(uint64_t call_id, const v1::GenerateResponse& response) EXCLUDES(mu_);
  void SendEnd(uint64_t call_id, const absl::Status& status) EXCLUDES(mu_);
  // Ends all sessions; the server stays.
  void BreakSessions() EXCLUDES(mu_);

  // Waits for the next WatchRequest, in order of arrival; 10 seconds at most, then router_id is 0.
  cluster::v1::WatchRequest NextWatch() EXCLUDES(mu_);
  // A frame for the latest watch.
  void SendFrame(const cluster::v1::WatchResponse& frame) EXCLUDES(mu_);
  // Ends the latest watch.
  void BreakWatch() EXCLUDES(mu_);

 private:
  using Stream = grpc::ServerReaderWriter<cluster::v1::SessionResponse, cluster::v1::SessionRequest>;

  grpc::Status Session(grpc::ServerContext* context, Stream* stream) override EXCLUDES(mu_);
  grpc::Status GetInfo(grpc::ServerContext* context, const cluster::v1::GetInfoRequest* request,
                       cluster::v1::GetInfoResponse* response) override EXCLUDES(mu_);
  grpc::Status GetTokenizer(grpc::ServerContext* context, const cluster::v1::GetTokenizerRequest* request,
                            grpc::ServerWriter<cluster::v1::GetTokenizerResponse>* writer) override
      EXCLUDES(mu_);
  grpc::Status Watch(grpc::ServerContext* context, const cluster::v1::WatchRequest* request,
                     grpc::ServerWriter<cluster::v1::WatchResponse>* writer) override EXCLUDES(mu_);
  void OnStart(const cluster::v1::StartCall& start, Stream& stream) EXCLUDES(mu_);
  // Written under the lock, so that a session cannot end meanwhile: no lock is taken by the other side for
  // it.
  void Write(Stream& stream, const cluster::v1::SessionResponse& message) EXCLUDES(mu_);
  void WriteToSession(const cluster::v1::SessionResponse& message) EXCLUDES(mu_);

  const Options options_;
  const std::string tokenizer_;  // serialized

  std::atomic<uint64_t> load_version_ = 0;

  mutable Mutex mu_;
  CondVar changed_;
  cluster::v1::GetInfoResponse info_ GUARDED_BY(mu_);
  std::map<Stream*, grpc::ServerContext*> sessions_ GUARDED_BY(mu_);
  std::vector<cluster::v1::StartCall> starts_ GUARDED_BY(mu_);
  size_t next_start_ GUARDED_BY(mu_) = 0;
  std::vector<uint64_t> cancels_ GUARDED_BY(mu_);
  std::map<uint64_t, bool> paused_ GUARDED_BY(mu_);
  int tokenizer_calls_ GUARDED_BY(mu_) = 0;
  std::vector<cluster::v1::WatchRequest> watch_requests_ GUARDED_BY(mu_);
  size_t next_watch_ GUARDED_BY(mu_) = 0;
  std::deque<cluster::v1::WatchResponse> frames_ GUARDED_BY(mu_);  // for the latest watch
  bool break_watch_ GUARDED_BY(mu_) = false;

  std::unique_ptr<rpc::Server> server_;  // last: it uses all of the above
};

}  // namespace qanat::fakes
