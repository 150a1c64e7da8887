// qanat-worker: puts the worker together and runs it until a signal.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/api/limits.h"
#include "common/base/available_memory.h"
#include "common/base/clock.h"
#include "common/base/cpu_topology.h"
#include "common/base/error.h"
#include "common/base/log.h"
#include "common/base/random.h"
#include "common/base/status_macros.h"
#include "common/base/task_pool.h"
#include "common/base/version.h"
#include "common/metrics/exporter.h"
#include "common/rpc/server.h"
#include "common/rpc/signals.h"
#include "common/rpc/stall_sweeper.h"
#include "common/text/chat_template.h"
#include "common/text/tokenizer.h"
#include "worker/backend/cpu_backend.h"
#include "worker/engine/engine.h"
#include "worker/engine/step_log.h"
#include "worker/engine/warm_step.h"
#include "worker/flags.h"
#include "worker/model/device_model_runner.h"
#include "worker/model/model_loader.h"
#include "worker/service/engine_loop.h"
#include "worker/service/generation.h"
#include "worker/service/inference_service.h"
#include "worker/service/load_report.h"
#include "worker/service/service_context.h"
#include "worker/service/watch/state_publisher.h"
#include "worker/service/worker_service.h"
#include "worker/sim/sim_model_runner.h"
#include "worker/sim/step_model_file.h"

namespace qanat::worker {
namespace {

constexpr int kStuck = 3;  // exit status
// Tasks that wait for a thread of a pool.
constexpr size_t kTextQueue = 4096;
constexpr int64_t kTextBytes = 256 << 20;  // of the requests that they hold
constexpr size_t kStreamQueue = 65536;

// The model on its device, and the engine's options that follow from both.
struct Device {
  std::unique_ptr<backend::Backend> backend;  // null where it is simulated
  std::unique_ptr<RealClock> clock;           // of a simulated one
  model::LoadedModel model;
  std::unique_ptr<engine::ModelRunner> runner;
  engine::EngineOptions engine;
  std::string numerics;
};

absl::StatusOr<int32_t> ChooseBlocks(const Flags& flags, int64_t block_bytes) {
  if (flags.engine.num_blocks > 0) return flags.engine.num_blocks;
  const int64_t bytes = flags.kv_memory > 0 ? flags.kv_memory : AvailableMemory().value_or(0) / 2;
  const int64_t blocks = std::min<int64_t>(bytes / block_bytes, flags.engine.max_blocks());
  if (blocks > 0) return static_cast<int32_t>(blocks);
  return absl::ResourceExhaustedError(
      absl::StrCat("--kv-memory: ", bytes, " bytes hold no block of ", block_bytes, " bytes"));
}

// A pool as large as the model's would be; none of it is allocated.
absl::StatusOr<Device> SimulateDevice(const Flags& flags) {
  Device device;
  device.engine = flags.engine;
  device.numerics = "sim";
  StepModel step_model = sim::kReferenceDevice;
  if (!flags.sim_model.empty()) {
    QANAT_ASSIGN_OR_RETURN(step_model, sim::ReadStepModel(flags.sim_model));
  }
  QANAT_ASSIGN_OR_RETURN(device.model, model::LoadWithoutWeights(flags.model, flags.engine.context_length));
  const model::ModelConfig& config = device.model.config;
  const int64_t token_bytes =
      int64_t{2} * config.num_layers * config.kv_size() * (flags.backend.float_cache ? 4 : 2);
  QANAT_ASSIGN_OR_RETURN(device.engine.num_blocks,
                         ChooseBlocks(flags, token_bytes * flags.engine.block_size));
  device.engine.context_length = device.model.context_length;
  QANAT_RETURN_IF_ERROR(device.engine.Validate());
  device.clock = std::make_unique<RealClock>();
  device.runner = std::make_unique<sim::SimModelRunner>(
      sim::SimOptions{.device = step_model, .vocabulary = config.vocab_size}, *device.clock);
  return device;
}

// REQUIRES: runs on the engine thread, which becomes compute thread 0.
absl::StatusOr<Device> LoadDevice(const Flags& flags) {
  if (flags.device == "sim") return SimulateDevice(flags);
  Device device;
  device.engine = flags.engine;
  QANAT_ASSIGN_OR_RETURN(device.backend, backend::CreateCpuBackend(flags.backend));
  QANAT_ASSIGN_OR_RETURN(device.model, model::LoadModel(flags.model, *device.backend,
                                                        {.max_tokens = flags.engine.max_batch_tokens,
                                                         .max_logit_rows = flags.engine.max_logit_rows(),
                                                         .max_context = flags.engine.context_length}));
  const auto format = flags.backend.float_cache ? backend::KvFormat::kF32 : backend::KvFormat::kBF16;
  backend::KvConfig kv = model::KvConfigFor(device.model.config, flags.engine.block_size, 1, format);
  QANAT_ASSIGN_OR_RETURN(kv.num_blocks, ChooseBlocks(flags, device.backend->BlockBytes(kv)));
  device.engine.num_blocks = kv.num_blocks;
  kv.num_blocks += flags.engine.padding_blocks();
  QANAT_RETURN_IF_ERROR(device.backend->AllocateKv(kv));
  device.engine.context_length = device.model.context_length;
  QANAT_RETURN_IF_ERROR(device.engine.Validate());
  device.numerics = device.backend->Numerics();
  device.runner = std::make_unique<model::DeviceModelRunner>(*device.model.model, *device.backend);
  return device;
}

// The same, and it has run a step.
absl::StatusOr<Device> LoadWarmDevice(const Flags& flags) {
  QANAT_ASSIGN_OR_RETURN(Device device, LoadDevice(flags));
  QANAT_RETURN_IF_ERROR(engine::WarmUp(*device.runner));
  return device;
}

// Null, and a warning, when there is none or it is not understood: chat is then refused, text is served.
std::unique_ptr<text::ChatTemplate> LoadTemplate(const Flags& flags, const text::Tokenizer& tokenizer) {
  const text::Vocabulary& vocabulary = tokenizer.vocabulary();
  const auto text_of = [&](TokenId id) {
    return id < 0 ? std::string() : std::string(tokenizer.TokenText(id));
  };
  if (vocabulary.chat_template.empty()) {
    spdlog::warn("{}: no chat template: chat will be refused", flags.model);
    return nullptr;
  }
  auto chat =
      text::ChatTemplate::Create(vocabulary.chat_template, text_of(vocabulary.bos), text_of(vocabulary.eos));
  if (chat.ok()) return *std::move(chat);
  spdlog::warn("{}: the chat template is not understood, chat will be refused: {}", flags.model,
               std::string(chat.status().message()));
  return nullptr;
}

api::WorkerInfo InfoOf(const Flags& flags, const Device& device, bool chat, const hash::HashKey& key,
                       uint64_t epoch) {
  const model::ModelConfig& config = device.model.config;
  api::WorkerInfo info;
  info.model = {flags.model_id, device.model.context_length, config.vocab_size, device.engine.block_size,
                int64_t{device.engine.num_blocks} * device.engine.block_size};
  info.architecture = config.architecture;
  info.quantization = config.quantization;
  info.chat_template = chat;
  info.model_fingerprint = device.model.fingerprint;
  info.numerics_id = api::NumericsId(device.numerics, device.model.fingerprint);
  info.hash_check = api::HashCheck(key, device.model.fingerprint, device.engine.block_size);
  info.epoch = epoch;
  info.max_requests = device.engine.max_seqs + device.engine.queue_requests;
  info.version = std::string(Version());
  return info;
}

// What: all parts of a worker but the device. Members in the order in which they need each other; `device`
// outlives it. Threads: main's; loop() is for the engine thread.
class Worker {
 public:
  Worker(const Flags& flags, const hash::HashKey& key, Device& device)
      : flags_(flags),
        template_(LoadTemplate(flags, *device.model.tokenizer)),
        info_(InfoOf(flags, device, template_ != nullptr, key, random_.Draw())),
        metrics_(exporter_, flags.model_id),
        step_log_(OpenStepLog(flags, metrics_)),
        publisher_(info_.epoch, {}, clock_, [this] { return service::LoadOf(engine_, loop_, clock_); }),
        engine_(device.engine, hash::BlockHasher(key, device.model.fingerprint, device.engine.block_size),
                *device.runner, clock_, Listener(), &publisher_),
        loop_(engine_, clock_),
        stall_sweeper_(flags.engine.stall_limit, clock_),
        text_pool_(cpus_, kTextQueue, kTextBytes),
        stream_pool_(cpus_, kStreamQueue),
        context_{engine_,
                 *device.model.tokenizer,
                 template_.get(),
                 info_,
                 key,
                 clock_,
                 text_pool_,
                 stream_pool_,
                 metrics_,
                 publisher_,
                 live_,
                 stall_sweeper_,
                 [this] { return random_.Draw(); }},
        inference_(context_),
        models_(context_),
        worker_service_(context_) {}

  absl::Status Start() {
    QANAT_RETURN_IF_ERROR(step_log_.status());
    service::ExportEngine(exporter_, engine_, info_, flags_.device,
                          flags_.backend.float_cache ? "float32" : "bf16");
    service::ExportWatch(exporter_, publisher_);
    exporter_.AddProcessMetrics("worker");
    watch_thread_.emplace(publisher_);
    QANAT_ASSIGN_OR_RETURN(health_, rpc::Server::Start({.listen = flags_.health_listen, .services = {}}));
    QANAT_ASSIGN_OR_RETURN(server_, rpc::Server::Start({.listen = flags_.listen,
                                                        .services = {&inference_, &models_, &worker_service_},
                                                        .max_receive_bytes = api::kMaxRequestBytes}));
    QANAT_ASSIGN_OR_RETURN(const std::string metrics, exporter_.Listen(flags_.metrics_listen));
    watchdog_ = std::make_unique<service::Watchdog>(loop_, flags_.watchdog, clock_, [this] { OnStuck(); });
    health_->SetServing("liveness", true);
    SetReady(true);
    std::printf("qanat-worker ready on %s (metrics %s, health %s) model=%s blocks=%d\n",
                server_->address().c_str(), metrics.c_str(), health_->address().c_str(),
                info_.model.id.c_str(), static_cast<int>(info_.model.pool_tokens / info_.model.block_size));
    std::fflush(stdout);
    return absl::OkStatus();
  }

  // Refuses what is new, lets what is open end within the drain limit, ends the rest, stops the engine.
  void Stop() {
    if (health_ != nullptr && server_ != nullptr) {
      SetReady(false);
      engine_.Drain();
      if (!live_.WaitUntilEmpty(flags_.drain_limit, clock_)) {
        live_.ForEach([](service::Generation& generation) {
          generation.Abort(engine::EndReason::kError,
                           WithReason(absl::UnavailableError("the worker is leaving"), "DRAINING"));
        });
      }
      worker_service_.CloseStreams();
      server_->Shutdown(std::chrono::seconds(1));
    }
    stall_sweeper_.Stop();
    watchdog_.reset();
    watch_thread_.reset();
    exporter_.Close();  // a scrape reads the engine, which goes before the exporter does
    engine_.Shutdown();
  }

  service::EngineLoop& loop() { return loop_; }

 private:
  static absl::StatusOr<std::unique_ptr<engine::StepLog>> OpenStepLog(const Flags& flags,
                                                                      engine::EngineMetrics& next) {
    if (flags.step_log.empty()) return nullptr;
    return engine::StepLog::Create(flags.step_log, next);
  }
  engine::EngineMetrics& Listener() {
    if (step_log_.ok() && *step_log_ != nullptr) return **step_log_;
    return metrics_;
  }

  void SetReady(bool ready) {
    health_->SetServing("readiness", ready);
    server_->SetServing("", ready);
  }

  // A device that hangs does not come back: callers see the stream break and go elsewhere.
  void OnStuck() {
    metrics_.OnWatchdogTrip();
    health_->SetServing("liveness", false);
    SetReady(false);
    spdlog::critical("a step took longer than the watchdog's limit: leaving at once");
    std::_Exit(kStuck);
  }

  const Flags& flags_;
  const int cpus_ = ReadCpuTopology().ComputeThreads();
  RealClock clock_;
  RandomSource random_;
  std::unique_ptr<text::ChatTemplate> template_;
  const api::WorkerInfo info_;
  metrics::Exporter exporter_;
  service::WorkerMetrics metrics_;
  const absl::StatusOr<std::unique_ptr<engine::StepLog>> step_log_;  // null: none is wanted
  service::StatePublisher publisher_;
  engine::Engine engine_;
  service::EngineLoop loop_;
  service::LiveGenerations live_;
  rpc::StallSweeper stall_sweeper_;
  TaskPool text_pool_;
  TaskPool stream_pool_;
  const service::ServiceContext context_;
  service::InferenceService inference_;
  service::ModelService models_;
  service::WorkerService worker_service_;
  std::unique_ptr<rpc::Server> health_;
  std::unique_ptr<rpc::Server> server_;
  std::unique_ptr<service::Watchdog> watchdog_;
  std::optional<service::WatchThread> watch_thread_;
};

// Serves until a signal. `attach` starts the engine thread's loop.
template <typename Attach>
absl::Status Serve(const Flags& flags, const hash::HashKey& key, Device& device,
                   rpc::TerminationSignals& signals, Attach attach) {
  Worker worker(flags, key, device);
  std::thread engine_thread = attach(worker.loop());
  const absl::Status started = worker.Start();
  if (started.ok()) spdlog::info("signal {}: draining", signals.Wait());
  worker.Stop();
  engine_thread.join();
  return started;
}

absl::Status Run(const Flags& flags, rpc::TerminationSignals& signals) {
  hash::HashKey key = hash::kPublicKey;
  if (!flags.hash_key_file.empty()) {
    QANAT_ASSIGN_OR_RETURN(key, hash::LoadHashKey(flags.hash_key_file));
  }
  // The engine thread is pinned as compute thread 0, so it is none that starts others: it loads, then steps.
  std::promise<absl::StatusOr<Device>> loaded;
  std::promise<service::EngineLoop*> loop;
  std::thread engine_thread([&] {
    loaded.set_value(LoadWarmDevice(flags));
    if (service::EngineLoop* attached = loop.get_future().get()) attached->Run();
  });
  absl::StatusOr<Device> device = loaded.get_future().get();
  bool attached = false;
  absl::Status status = device.status();
  if (device.ok()) {
    status = Serve(flags, key, *device, signals, [&](service::EngineLoop& engine_loop) {
      attached = true;
      loop.set_value(&engine_loop);
      return std::move(engine_thread);
    });
  }
  if (!attached) {
    loop.set_value(nullptr);
    engine_thread.join();
  }
  return status;
}

}  // namespace
}  // namespace qanat::worker

int main(int argc, char** argv) {
  qanat::rpc::TerminationSignals signals;
  qanat::worker::Flags flags;
  if (const auto exit = qanat::worker::ParseFlags(argc, argv, flags)) return *exit;
  const absl::Status status = qanat::worker::Run(flags, signals);
  if (status.ok()) return 0;
  std::fprintf(stderr, "qanat-worker: %s\n", std::string(status.message()).c_str());
  return 1;
}
