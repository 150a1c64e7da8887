#include "tools/qanat/load/load_driver.h"

#include <algorithm>
#include <chrono>

#include "common/rpc/options.h"
#include "common/rpc/status.h"

namespace qanat::tools {
namespace {

constexpr Duration kProgressEvery = std::chrono::milliseconds(200);

}  // namespace

// One session under way, and the call of its turn. It is the tag of whatever it waits for.
struct LoadDriver::Call {
  enum State { kStarting, kReading, kFinishing };

  const Session* session = nullptr;
  size_t turn = 0;
  std::vector<TokenId> history;  // of the turns before, and this one's prompt
  std::list<std::unique_ptr<Call>>::iterator place;

  State state = kStarting;
  std::unique_ptr<grpc::ClientContext> context;
  std::unique_ptr<grpc::ClientAsyncReader<v1::GenerateResponse>> reader;
  v1::GenerateResponse message;
  grpc::Status status;
  RequestRecord record;
};

LoadDriver::LoadDriver(const std::shared_ptr<grpc::Channel>& channel, const Clock& clock,
                       const LoadOptions& options)
    : stub_(v1::InferenceService::NewStub(channel)), clock_(clock), options_(options) {}

LoadDriver::~LoadDriver() {
  queue_.Shutdown();
  void* tag = nullptr;
  bool ok = false;
  while (queue_.Next(&tag, &ok)) {
  }
}

void LoadDriver::Run(const std::vector<Session>& sessions, const std::atomic<bool>& interrupted,
                     const std::function<void(const LoadProgress&)>& progress) {
  sessions_ = &sessions;
  start_ = clock_.Now();
  BeginDueSessions();
  while (!calls_.empty() || (!stopped_ && progress_.begun < sessions.size())) {
    void* tag = nullptr;
    bool ok = false;
    const auto wake = std::chrono::system_clock::now() +
                      std::chrono::duration_cast<std::chrono::system_clock::duration>(NextWake() - Elapsed());
    if (queue_.AsyncNext(&tag, &ok, wake) == grpc::CompletionQueue::GOT_EVENT) {
      OnEvent(*static_cast<Call*>(tag), ok);
    }
    if (interrupted && !stopped_) Interrupt();
    BeginDueSessions();
    if (Elapsed() < next_progress_) continue;
    next_progress_ = Elapsed() + kProgressEvery;
    progress_.open = calls_.size();
    LoadProgress now = progress_;
    now.elapsed = Elapsed();
    progress(now);
  }
  elapsed_ = Elapsed();
}

Duration LoadDriver::NextWake() const {
  if (closed_loop() || stopped_ || progress_.begun == sessions_->size()) return next_progress_;
  return std::min(next_progress_, (*sessions_)[progress_.begun].arrival);
}

void LoadDriver::BeginDueSessions() {
  while (!stopped_ && progress_.begun < sessions_->size()) {
    const Session& session = (*sessions_)[progress_.begun];
    const bool later =
        closed_loop() ? calls_.size() >= static_cast<size_t>(options_.streams) : Elapsed() < session.arrival;
    if (later) return;
    ++progress_.begun;
    Call& call = *calls_.emplace_back(std::make_unique<Call>());
    call.session = &session;
    call.place = std::prev(calls_.end());
    Send(call, session.arrival);
  }
}

void LoadDriver::Send(Call& call, Duration due) {
  const Turn& turn = call.session->turns[call.turn];
  for (const Piece& piece : turn.prompt) {
    AppendTokens(piece, options_.seed, options_.vocab_size, call.history);
  }
  v1::GenerateRequest request;
  request.set_model(options_.model);
  request.mutable_token_ids()->mutable_ids()->Add(call.history.begin(), call.history.end());
  request.mutable_sampling()->set_temperature(0);
  request.mutable_stopping()->set_max_tokens(turn.output);
  request.mutable_stopping()->set_ignore_eos(true);
  request.mutable_output()->set_token_ids(true);  // they say how many tokens a message brings

  call.state = Call::kStarting;
  call.reader.reset();  // it lives in memory of the context
  call.context = std::make_unique<grpc::ClientContext>();
  if (options_.timeout > Duration::zero()) {
    rpc::SetDeadline(*call.context, clock_.Now() + options_.timeout, clock_);
  }
  call.record = RequestRecord();
  call.record.sent = Elapsed();
  call.record.due = closed_loop() ? call.record.sent : due;
  call.record.wanted = turn.output;
  call.record.prompt_tokens = static_cast<int32_t>(call.history.size());
  call.reader = stub_->AsyncGenerate(call.context.get(), request, &queue_, &call);
}

void LoadDriver::OnEvent(Call& call, bool ok) {
  if (call.state == Call::kFinishing) return OnEnd(call);
  if (ok && call.state == Call::kReading) OnMessage(call);
  call.state = ok ? Call::kReading : Call::kFinishing;
  if (ok) {
    call.reader->Read(&call.message, &call);
  } else {
    call.reader->Finish(&call.status, &call);
  }
}

void LoadDriver::OnMessage(Call& call) {
  RequestRecord& record = call.record;
  if (call.message.has_usage()) record.cached_tokens = call.message.usage().cached_tokens();
  const int32_t tokens = call.message.token_ids_size();
  if (tokens == 0) return;
  const Duration now = Elapsed();
  if (record.tokens == 0) {
    record.first = now;
    if (tokens > 1) tally_.AddGap(Duration::zero(), tokens - 1);
  } else {
    tally_.AddGap(now - record.last, tokens);
  }
  record.last = now;
  record.tokens += tokens;
  progress_.tokens += tokens;
  if (call.turn + 1 < call.session->turns.size()) {
    call.history.insert(call.history.end(), call.message.token_ids().begin(), call.message.token_ids().end());
  }
}

void LoadDriver::OnEnd(Call& call) {
  ++progress_.ended;
  call.record.status = rpc::FromGrpc(call.status);
  call.record.interrupted = stopped_ && !call.record.status.ok();
  const bool served = call.record.status.ok() && !call.record.FellShort();
  tally_.Add(std::move(call.record));
  if (served && !stopped_ && ++call.turn < call.session->turns.size()) return Send(call, Elapsed());
  calls_.erase(call.place);
}

void LoadDriver::Interrupt() {
  stopped_ = true;
  for (const auto& call : calls_) call->context->TryCancel();
}

}  // namespace qanat::tools
