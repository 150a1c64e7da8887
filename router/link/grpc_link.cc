#include "router/link/grpc_link.h"

#include <chrono>
#include <utility>

#include "absl/status/statusor.h"
#include "common/rpc/options.h"
#include "router/link/grpc_link_handshake.h"
#include "router/link/grpc_link_watch.h"

namespace qanat::router {
namespace {

// Of one call of the handshake; the tokenizer is some megabytes.
constexpr Duration kCallTimeout = std::chrono::seconds(10);
// A worker that leaves sooner than this after it was ready is not asked again at once; nor is its Watch begun
// again at once.
constexpr Duration kLasting = std::chrono::seconds(1);

}  // namespace

GrpcLink::GrpcLink(const std::string& address, const Options& options)
    : options_(options),
      channel_(rpc::MakeChannel(address)),
      stub_(cluster::v1::WorkerService::NewStub(channel_)),
      backoff_(options.first_delay, options.longest_delay, options.seed),
      watch_backoff_(options.first_delay, options.longest_delay, ~options.seed) {}

GrpcLink::~GrpcLink() { Close(); }

void GrpcLink::Open(LinkObserver& observer) {
  observer_ = &observer;
  thread_ = std::thread([this] { Run(); });
}

void GrpcLink::Close() {
  std::shared_ptr<grpc::ClientContext> call;
  std::shared_ptr<GrpcLinkSession> session;
  {
    MutexLock lock(mu_);
    closed_ = true;
    call = call_;
    session = session_;
  }
  changed_.NotifyAll();
  if (call != nullptr) call->TryCancel();
  if (session != nullptr) session->Stop();
  if (thread_.joinable()) thread_.join();
}

std::optional<CallId> GrpcLink::Start(const WorkerCall& call, std::shared_ptr<CallSink> sink) {
  const std::shared_ptr<GrpcLinkSession> session = Session();
  if (session == nullptr) return std::nullopt;
  const CallId id = ++last_id_;
  if (!session->Send(id, call, std::move(sink))) return std::nullopt;
  return id;
}

void GrpcLink::Cancel(CallId id) {
  if (const std::shared_ptr<GrpcLinkSession> session = Session()) session->Cancel(id);
}

void GrpcLink::SetPaused(CallId id, bool paused) {
  if (const std::shared_ptr<GrpcLinkSession> session = Session()) session->SetPaused(id, paused);
}

void GrpcLink::Run() {
  do {
    if (Connect()) backoff_.Reset();
  } while (Pause(backoff_.Next()));
}

bool GrpcLink::Connect() {
  absl::StatusOr<ReadyWorker> worker = AskWorker(
      *stub_, options_.tokenizers, [this](const auto& call) { return RunCall(kCallTimeout, call); });
  if (!worker.ok()) {
    observer_->OnDown(worker.status());
    return false;
  }
  const auto session = std::make_shared<GrpcLinkSession>(
      options_.clock,
      GrpcLinkSession::Events{.on_broken = [this](const absl::Status& why) { observer_->OnDown(why); },
                              .on_over =
                                  [this] {
                                    // Under the lock: the link may be gone as soon as it is free.
                                    MutexLock lock(mu_);
                                    session_ = nullptr;
                                    if (call_ != nullptr) call_->TryCancel();
                                    changed_.NotifyAll();
                                  },
                              .on_sign = [this] { observer_->OnSign(); },
                              .on_relay_cpu = options_.on_relay_cpu});
  {
    MutexLock lock(mu_);
    session_ = session;
  }
  const Time began = options_.clock.Now();
  // Before the stream begins, so that it cannot break before the observer knows of it.
  if (const absl::Status refused = observer_->OnReady(*std::move(worker)); !refused.ok()) {
    {
      MutexLock lock(mu_);
      session_ = nullptr;
    }
    session->Abandon();
    observer_->OnDown(refused);
    return false;
  }
  session->Begin(*stub_, session);
  if (IsClosed()) session->Stop();
  WatchSession();
  return options_.clock.Now() - began >= kLasting;
}

void GrpcLink::WatchSession() {
  for (;;) {
    const auto context = std::make_shared<grpc::ClientContext>();
    std::shared_ptr<GrpcLinkSession> session;
    {
      MutexLock lock(mu_);
      if (session_ == nullptr) return;
      session = session_;
      call_ = context;
    }
    const Time began = options_.clock.Now();
    const WatchEnd end = FollowWatch(*stub_, *context, options_.router_id, *observer_);
    {
      MutexLock lock(mu_);
      call_ = nullptr;
    }
    std::optional<Duration> pause = Duration::zero();
    if (end.verdict == WatchVerdict::kReconnect) {
      session->Stop();
      pause.reset();
    } else if (absl::IsUnimplemented(end.status)) {
      pause.reset();
    } else if (options_.clock.Now() - began < kLasting) {
      pause = watch_backoff_.Next();
    } else {
      watch_backoff_.Reset();
    }
    if (!PauseInSession(pause)) return;
  }
}

absl::Status GrpcLink::RunCall(Duration timeout,
                               const std::function<absl::Status(grpc::ClientContext&)>& call) {
  const auto context = std::make_shared<grpc::ClientContext>();
  rpc::SetDeadline(*context, options_.clock.Now() + timeout, options_.clock);
  {
    MutexLock lock(mu_);
    if (closed_) return absl::CancelledError("the link was closed");
    call_ = context;
  }
  const absl::Status status = call(*context);
  MutexLock lock(mu_);
  call_ = nullptr;
  return status;
}

bool GrpcLink::Pause(Duration delay) {
  const Time until = options_.clock.Now() + delay;
  MutexLock lock(mu_);
  while (!closed_) {
    const Duration left = until - options_.clock.Now();
    if (left <= Duration::zero()) return true;
    changed_.WaitFor(mu_, left);
  }
  return false;
}

bool GrpcLink::PauseInSession(std::optional<Duration> delay) {
  const Time began = options_.clock.Now();
  MutexLock lock(mu_);
  while (session_ != nullptr) {
    if (!delay.has_value()) {
      changed_.Wait(mu_);
      continue;
    }
    const Duration left = *delay - (options_.clock.Now() - began);
    if (left <= Duration::zero()) return true;
    changed_.WaitFor(mu_, left);
  }
  return false;
}

bool GrpcLink::IsClosed() {
  MutexLock lock(mu_);
  return closed_;
}

std::shared_ptr<GrpcLinkSession> GrpcLink::Session() {
  MutexLock lock(mu_);
  return session_;
}

}  // namespace qanat::router
