// A whole worker but for its model: engine, services and a gRPC server on a port of its own, and a client.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/api/limits.h"
#include "common/base/task_pool.h"
#include "common/metrics/exporter.h"
#include "common/rpc/options.h"
#include "common/rpc/server.h"
#include "common/rpc/status.h"
#include "grpcpp/grpcpp.h"
#include "gtest/gtest.h"
#include "qanat/cluster/v1/worker.grpc.pb.h"
#include "qanat/v1/inference.grpc.pb.h"
#include "qanat/v1/model.grpc.pb.h"
#include "tests/fakes/byte_level_vocabulary.h"
#include "tests/fakes/narrow_channel.h"
#include "tests/worker/service/heard.h"
#include "worker/engine/engine.h"
#include "worker/service/engine_loop.h"
#include "worker/service/inference_service.h"
#include "worker/service/load_report.h"
#include "worker/service/service_context.h"
#include "worker/service/watch/state_publisher.h"
#include "worker/service/worker_service.h"

namespace qanat::service {

struct FixtureOptions {
  int32_t context_length = 256;
  int32_t num_blocks = 256;
  int32_t max_seqs = 16;
  int32_t queue_requests = 64;
  Duration stall_limit = std::chrono::seconds(30);
  size_t text_queue = 64;
  int64_t text_bytes = 64 << 20;
  text::Vocabulary vocabulary = fakes::ByteLevelVocabulary({{"D", "E"}, {"DE", "F"}});
};

// A vocabulary whose last token has 256 letters, so that a short answer fills every buffer on the way.
inline FixtureOptions LongTokens() {
  FixtureOptions options;
  std::vector<std::pair<std::string, std::string>> merges;
  for (int length = 1; length < 256; length *= 2) {
    merges.emplace_back(std::string(length, 'a'), std::string(length, 'a'));
  }
  options.vocabulary = fakes::ByteLevelVocabulary(merges);
  options.context_length = 8192;
  options.num_blocks = 512;
  return options;
}

// What: runs over the runner that it is given, which outlives it.
class Worker {
 public:
  static constexpr uint64_t kEpoch = 99;

  Worker(engine::ModelRunner& runner, FixtureOptions options)
      : tokenizer_(*text::Tokenizer::Create(std::move(options.vocabulary))),
        metrics_(exporter_, "tiny"),
        publisher_(kEpoch, {}, clock_, [this] { return LoadOf(engine_, loop_, clock_); }),
        engine_(EngineOptionsOf(options), hash::BlockHasher(hash::kPublicKey, "f00d", 16), runner, clock_,
                metrics_, &publisher_),
        loop_(engine_, clock_),
        info_(InfoOf(options)),
        stall_sweeper_(options.stall_limit, clock_),
        text_pool_(2, options.text_queue, options.text_bytes),
        stream_pool_(2, 1024),
        context_{engine_,
                 *tokenizer_,
                 nullptr,
                 info_,
                 hash::kPublicKey,
                 clock_,
                 text_pool_,
                 stream_pool_,
                 metrics_,
                 publisher_,
                 live_,
                 stall_sweeper_,
                 [this] { return ++seed_; }},
        inference_(context_),
        models_(context_),
        worker_(context_),
        server_(
            *rpc::Server::Start({"127.0.0.1:0", {&inference_, &models_, &worker_}, api::kMaxRequestBytes})),
        watch_thread_(publisher_),
        thread_([this] { loop_.Run(); }) {
    ExportWatch(exporter_, publisher_);
    ExportEngine(exporter_, engine_, info_, "fake", "none");
  }

  ~Worker() {
    worker_.CloseStreams();
    server_->Shutdown(Duration::zero());
    engine_.Shutdown();
    thread_.join();
  }

  std::shared_ptr<grpc::Channel> Connect() const { return rpc::MakeChannel(server_->address()); }
  std::shared_ptr<grpc::Channel> ConnectNarrowly() const {
    return fakes::MakeNarrowChannel(server_->address());
  }
  const text::Tokenizer& tokenizer() const { return *tokenizer_; }
  engine::Engine& engine() { return engine_; }
  LiveGenerations& live() { return live_; }
  TaskPool& text_pool() { return text_pool_; }
  const api::WorkerInfo& info() const { return info_; }
  WorkerService& worker_service() { return worker_; }
  std::string Metrics() const { return exporter_.Text(); }

  // Nothing runs, waits or holds a block.
  bool WaitUntilIdle() {
    if (!live_.WaitUntilEmpty(std::chrono::seconds(30), clock_)) return false;
    const engine::EngineSnapshot now = engine_.Snapshot();
    return now.running == 0 && now.waiting == 0 && now.referenced_blocks == 0;
  }

 private:
  static engine::EngineOptions EngineOptionsOf(const FixtureOptions& options) {
    engine::EngineOptions out;
    out.context_length = options.context_length;
    out.num_blocks = options.num_blocks;
    out.max_seqs = options.max_seqs;
    out.queue_requests = options.queue_requests;
    out.stall_limit = options.stall_limit;
    return out;
  }
  api::WorkerInfo InfoOf(const FixtureOptions& options) const {
    api::WorkerInfo info;
    info.model = {"tiny", options.context_length, tokenizer_->size(), 16, int64_t{16} * options.num_blocks};
    info.architecture = "fake";
    info.quantization = "none";
    info.model_fingerprint = "f00d";
    info.numerics_id = "fake-1";
    info.hash_check = api::HashCheck(hash::kPublicKey, "f00d", 16);
    info.epoch = kEpoch;
    info.max_requests = options.queue_requests + options.max_seqs;
    info.version = "test";
    return info;
  }

  const RealClock clock_;
  const std::unique_ptr<text::Tokenizer> tokenizer_;
  metrics::Exporter exporter_;
  WorkerMetrics metrics_;
  StatePublisher publisher_;
  engine::Engine engine_;
  EngineLoop loop_;
  const api::WorkerInfo info_;
  LiveGenerations live_;
  rpc::StallSweeper stall_sweeper_;
  std::atomic<uint64_t> seed_ = 1000;
  TaskPool text_pool_;
  TaskPool stream_pool_;
  const ServiceContext context_;
  InferenceService inference_;
  ModelService models_;
  WorkerService worker_;
  std::unique_ptr<rpc::Server> server_;
  WatchThread watch_thread_;
  std::thread thread_;
};

}  // namespace qanat::service
