#include "tests/fakes/fake_worker_server.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "common/api/call_end.h"
#include "common/api/tokenizer_proto.h"
#include "common/api/worker_info.h"
#include "common/base/check.h"
#include "common/hash/sha256.h"
#include "tests/fakes/byte_level_vocabulary.h"

namespace qanat::fakes {
namespace {

constexpr auto kPatience = std::chrono::seconds(10);

cluster::v1::GetInfoResponse MakeInfo() {
  cluster::v1::GetInfoResponse info;
  info.set_model_id("tiny");
  info.set_context_length(256);
  info.set_vocab_size(5 + 256);
  info.set_block_size(16);
  info.set_total_blocks(64);
  info.set_model_fingerprint("f00d");
  info.set_numerics_id("exact");
  info.set_hash_check(api::HashCheck(hash::kPublicKey, "f00d", 16));
  info.set_epoch(1);
  info.set_max_requests(1000);
  return info;
}

// One token a response; the text of a byte's token is the byte.
v1::GenerateResponse Echo(const v1::GenerateRequest& request, int position) {
  v1::GenerateResponse response;
  const int id = request.token_ids().ids(position);
  response.set_request_id(request.request_id());
  response.set_first_token(position);
  if (request.output().token_ids()) response.add_token_ids(id);
  response.set_text(std::string(1, static_cast<char>(id - ByteToken('\0'))));
  if (position + 1 == request.token_ids().ids_size()) {
    response.mutable_finish()->set_reason(v1::FINISH_REASON_LENGTH);
    response.mutable_usage()->set_prompt_tokens(position + 1);
    response.mutable_usage()->set_completion_tokens(position + 1);
    response.set_seed(request.sampling().seed());
  }
  return response;
}

}  // namespace

FakeWorkerServer::FakeWorkerServer(const Options& options)
    : options_(options),
      tokenizer_(api::ToProto(ByteLevelVocabulary({})).SerializeAsString()),
      info_(MakeInfo()) {
  auto server = rpc::Server::Start({.listen = options.listen, .services = {this}});
  QANAT_CHECK(server.ok()) << server.status();
  server_ = *std::move(server);
}

FakeWorkerServer::~FakeWorkerServer() { server_->Shutdown(Duration::zero()); }

cluster::v1::GetInfoResponse FakeWorkerServer::info() const {
  MutexLock lock(mu_);
  return info_;
}

void FakeWorkerServer::SetInfo(const cluster::v1::GetInfoResponse& info) {
  MutexLock lock(mu_);
  info_ = info;
}

cluster::v1::StartCall FakeWorkerServer::NextStart() {
  const auto until = std::chrono::steady_clock::now() + kPatience;
  MutexLock lock(mu_);
  while (next_start_ >= starts_.size()) {
    const auto left = until - std::chrono::steady_clock::now();
    if (left <= Duration::zero()) return {};
    changed_.WaitFor(mu_, left);
  }
  return starts_[next_start_++];
}

bool FakeWorkerServer::AwaitCancel(uint64_t call_id) {
  const auto until = std::chrono::steady_clock::now() + kPatience;
  MutexLock lock(mu_);
  while (std::find(cancels_.begin(), cancels_.end(), call_id) == cancels_.end()) {
    const auto left = until - std::chrono::steady_clock::now();
    if (left <= Duration::zero()) return false;
    changed_.WaitFor(mu_, left);
  }
  return true;
}

bool FakeWorkerServer::IsPaused(uint64_t call_id) const {
  MutexLock lock(mu_);
  const auto found = paused_.find(call_id);
  return found != paused_.end() && found->second;
}

int FakeWorkerServer::tokenizer_calls() const {
  MutexLock lock(mu_);
  return tokenizer_calls_;
}

void FakeWorkerServer::Send(uint64_t call_id, const v1::GenerateResponse& response) {
  cluster::v1::SessionResponse message;
  cluster::v1::CallEvent& event = *message.add_events();
  event.set_call_id(call_id);
  *event.mutable_response() = response;
  WriteToSession(message);
}

void FakeWorkerServer::SendEnd(uint64_t call_id, const absl::Status& status) {
  cluster::v1::SessionResponse message;
  cluster::v1::CallEvent& event = *message.add_events();
  event.set_call_id(call_id);
  *event.mutable_end() = api::ToCallEnd(status);
  WriteToSession(message);
}

void FakeWorkerServer::BreakSessions() {
  MutexLock lock(mu_);
  for (const auto& [stream, context] : sessions_) context->TryCancel();
}

cluster::v1::WatchRequest FakeWorkerServer::NextWatch() {
  const auto until = std::chrono::steady_clock::now() + kPatience;
  MutexLock lock(mu_);
  while (next_watch_ >= watch_requests_.size()) {
    const auto left = until - std::chrono::steady_clock::now();
    if (left <= Duration::zero()) return {};
    changed_.WaitFor(mu_, left);
  }
  return watch_requests_[next_watch_++];
}

void FakeWorkerServer::SendFrame(const cluster::v1::WatchResponse& frame) {
  MutexLock lock(mu_);
  frames_.push_back(frame);
  changed_.NotifyAll();
}

void FakeWorkerServer::BreakWatch() {
  MutexLock lock(mu_);
  break_watch_ = true;
  changed_.NotifyAll();
}

grpc::Status FakeWorkerServer::Watch(grpc::ServerContext* context, const cluster::v1::WatchRequest* request,
                                     grpc::ServerWriter<cluster::v1::WatchResponse>* writer) {
  if (!options_.watch) return {grpc::StatusCode::UNIMPLEMENTED, "no watch"};
  MutexLock lock(mu_);
  const size_t number = watch_requests_.size();
  watch_requests_.push_back(*request);
  frames_.clear();
  break_watch_ = false;
  changed_.NotifyAll();
  // A watch that another has replaced only waits for its end.
  const auto is_latest = [&]() REQUIRES(mu_) { return number + 1 == watch_requests_.size(); };
  while (!context->IsCancelled() && !(is_latest() && break_watch_)) {
    if (is_latest() && !frames_.empty()) {
      writer->Write(frames_.front());
      frames_.pop_front();
    } else {
      // Nothing tells a handler that its caller has left.
      changed_.WaitFor(mu_, std::chrono::milliseconds(2));
    }
  }
  return grpc::Status::OK;
}

void FakeWorkerServer::WriteToSession(const cluster::v1::SessionResponse& message) {
  MutexLock lock(mu_);
  QANAT_CHECK(sessions_.size() == 1) << sessions_.size() << " sessions are open";
  sessions_.begin()->first->Write(message);
}

void FakeWorkerServer::Write(Stream& stream, const cluster::v1::SessionResponse& message) {
  MutexLock lock(mu_);
  stream.Write(message);
}

grpc::Status FakeWorkerServer::Session(grpc::ServerContext* context, Stream* stream) {
  {
    MutexLock lock(mu_);
    sessions_[stream] = context;
  }
  cluster::v1::SessionRequest request;
  while (stream->Read(&request)) {
    if (request.has_start()) OnStart(request.start(), *stream);
    if (request.has_cancel()) {
      MutexLock lock(mu_);
      cancels_.push_back(request.cancel().call_id());
      changed_.NotifyAll();
    }
    if (request.has_pause()) {
      MutexLock lock(mu_);
      paused_[request.pause().call_id()] = request.pause().paused();
      changed_.NotifyAll();
    }
  }
  MutexLock lock(mu_);
  sessions_.erase(stream);
  return grpc::Status::OK;
}

void FakeWorkerServer::OnStart(const cluster::v1::StartCall& start, Stream& stream) {
  cluster::v1::SessionResponse message;
  const auto add = [&]() -> cluster::v1::CallEvent& {
    cluster::v1::CallEvent& event = *message.add_events();
    event.set_call_id(start.call_id());
    return event;
  };
  if (options_.mode == Mode::kRefuse) {
    cluster::v1::CallEnd& end = *add().mutable_end();
    end = api::ToCallEnd(options_.refusal);
    end.set_redirect(options_.redirect);
  } else {
    add().mutable_accepted()->set_load_version(++load_version_);
  }
  if (options_.mode == Mode::kEcho) {
    for (int i = 0; i < start.request().token_ids().ids_size(); ++i)
      *add().mutable_response() = Echo(start.request(), i);
    cluster::v1::CallEnd& end = *add().mutable_end();
    end = api::ToCallEnd(absl::OkStatus());
    end.set_load_version(++load_version_);
  }
  Write(stream, message);
  MutexLock lock(mu_);
  starts_.push_back(start);
  changed_.NotifyAll();
}

grpc::Status FakeWorkerServer::GetInfo(grpc::ServerContext* context,
                                       const cluster::v1::GetInfoRequest* request,
                                       cluster::v1::GetInfoResponse* response) {
  *response = info();
  return grpc::Status::OK;
}

grpc::Status FakeWorkerServer::GetTokenizer(grpc::ServerContext* context,
                                            const cluster::v1::GetTokenizerRequest* request,
                                            grpc::ServerWriter<cluster::v1::GetTokenizerResponse>* writer) {
  {
    MutexLock lock(mu_);
    ++tokenizer_calls_;
  }
  constexpr size_t kChunk = 1000;
  cluster::v1::GetTokenizerResponse part;
  for (size_t from = 0; from < tokenizer_.size(); from += kChunk) {
    part.set_chunk(tokenizer_.substr(from, kChunk));
    if (from + kChunk >= tokenizer_.size()) {
      part.set_sha256(options_.sha256.empty() ? hash::Sha256(tokenizer_) : options_.sha256);
    }
    writer->Write(part);
  }
  return grpc::Status::OK;
}

}  // namespace qanat::fakes
