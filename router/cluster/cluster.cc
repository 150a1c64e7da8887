#include "router/cluster/cluster.h"

#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/log.h"

namespace qanat::router {
namespace {

std::shared_ptr<const Model> MakeModel(const ReadyWorker& worker) {
  const api::WorkerInfo& info = worker.info;
  auto model = std::make_shared<Model>();
  model->id = info.model.id;
  model->fingerprint = info.model_fingerprint;
  model->architecture = info.architecture;
  model->quantization = info.quantization;
  model->context_length = info.model.context_length;
  model->vocab_size = info.model.vocab_size;
  model->block_size = info.model.block_size;
  model->tokenizer = worker.tokenizer;
  model->chat_template = worker.chat_template;
  return model;
}

bool IsServing(WorkerState state) { return state == WorkerState::kReady || state == WorkerState::kDraining; }

}  // namespace

Cluster::Cluster(const hash::HashKey& hash_key, std::function<void()> on_change)
    : hash_key_(hash_key), on_change_(std::move(on_change)) {}

Cluster::~Cluster() { Close(); }

WorkerId Cluster::Add(std::string address, std::unique_ptr<WorkerLink> link) {
  Member* member = nullptr;
  {
    MutexLock lock(mu_);
    QANAT_CHECK(members_.size() < UINT16_MAX) << "too many workers for a WorkerId";
    const WorkerId id{static_cast<uint16_t>(members_.size())};
    members_.push_back(std::make_unique<Member>(*this, id, std::move(link)));
    member = members_.back().get();
    ledger_.AddWorker();
    auto workers = std::make_shared<std::vector<Worker>>(*workers_);
    workers->emplace_back().address = std::move(address);
    workers_ = std::move(workers);
  }
  member->link()->Open(*member);
  return member->id();
}

void Cluster::Close() {
  std::vector<Member*> members;
  {
    MutexLock lock(mu_);
    closing_ = true;
    for (const auto& member : members_) members.push_back(member.get());
  }
  for (Member* member : members) member->link()->Close();
}

ClusterSnapshot Cluster::Snapshot() const {
  MutexLock lock(mu_);
  return {workers_, ledger_.Loads()};
}

std::optional<Dispatch> Cluster::TryDispatch(WorkerId id) {
  MutexLock lock(mu_);
  const Worker& worker = workers_->at(ToIndex(id));
  if (worker.state != WorkerState::kReady) return std::nullopt;
  return Dispatch{ledger_.Take(id), members_[ToIndex(id)]->link(), worker.address};
}

void Cluster::MarkDraining(WorkerId id) {
  std::string address;
  {
    MutexLock lock(mu_);
    const Worker& worker = workers_->at(ToIndex(id));
    if (worker.state != WorkerState::kReady) return;
    address = worker.address;
    Publish(id, [](Worker& changed) { changed.state = WorkerState::kDraining; });
  }
  spdlog::info("worker {} is draining", address);
  on_change_();
}

absl::Status Cluster::OnReady(WorkerId id, ReadyWorker worker) {
  const api::WorkerInfo& info = worker.info;
  const uint64_t expected = api::HashCheck(hash_key_, info.model_fingerprint, info.model.block_size);
  if (info.hash_check != expected) {
    return absl::FailedPreconditionError(
        "its block hash differs from ours: is --hash-key-file the same on both sides?");
  }
  std::string address;
  {
    MutexLock lock(mu_);
    auto model = FindOrMakeModel(worker);
    if (!model.ok()) return model.status();
    Publish(id, [&](Worker& changed) {
      changed.state = WorkerState::kReady;
      changed.model = *model;
      changed.epoch = info.epoch;
      changed.total_blocks = static_cast<int32_t>(info.model.pool_tokens / info.model.block_size);
      changed.max_requests = info.max_requests;
      changed.numerics_id = info.numerics_id;
    });
    address = (*workers_)[ToIndex(id)].address;
  }
  spdlog::info("worker {} is ready: model {} ({}), epoch {:016x}, numerics {}, version {}", address,
               info.model.id, info.model_fingerprint, info.epoch, info.numerics_id, info.version);
  on_change_();
  return absl::OkStatus();
}

void Cluster::OnDown(WorkerId id, const absl::Status& why) {
  const std::string problem(why.message());
  std::string address;
  bool changed = false;
  bool news = false;
  {
    MutexLock lock(mu_);
    const Worker& worker = workers_->at(ToIndex(id));
    address = worker.address;
    changed = worker.state != WorkerState::kDown;
    // A worker that stays away is reported again only for another reason.
    news = !closing_ && (changed || members_[ToIndex(id)]->last_problem != problem);
    members_[ToIndex(id)]->last_problem = problem;
    if (changed) {
      Publish(id, [](Worker& down) { down.state = WorkerState::kDown; });
    }
  }
  if (news) spdlog::warn("worker {} is down: {}", address, problem);
  if (changed) on_change_();
}

absl::StatusOr<std::shared_ptr<const Model>> Cluster::FindOrMakeModel(const ReadyWorker& worker) const {
  const api::WorkerInfo& info = worker.info;
  std::shared_ptr<const Model> known;
  for (const Worker& other : *workers_) {
    if (other.model == nullptr || other.model->id != info.model.id) continue;
    if (other.model->fingerprint == info.model_fingerprint &&
        other.model->block_size == info.model.block_size) {
      known = other.model;
    } else if (IsServing(other.state)) {
      return absl::FailedPreconditionError(
          absl::StrCat("its model ", info.model.id, " has fingerprint ", info.model_fingerprint,
                       " and blocks of ", info.model.block_size, ", that of worker ", other.address, " has ",
                       other.model->fingerprint, " and blocks of ", other.model->block_size));
    }
  }
  return known != nullptr ? known : MakeModel(worker);
}

template <typename Change>
void Cluster::Publish(WorkerId id, Change change) {
  auto workers = std::make_shared<std::vector<Worker>>(*workers_);
  change((*workers)[ToIndex(id)]);
  workers_ = std::move(workers);
}

}  // namespace qanat::router
