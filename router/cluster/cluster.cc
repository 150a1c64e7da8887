#include "router/cluster/cluster.h"

#include <string_view>
#include <utility>
#include <variant>

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

bool TakesCalls(WorkerState state) { return state == WorkerState::kReady || state == WorkerState::kSuspect; }
bool IsServing(WorkerState state) { return TakesCalls(state) || state == WorkerState::kDraining; }

std::string_view WhyDoubted(Doubt doubt) {
  switch (doubt) {
    case Doubt::kNone:
      return "heard again";
    case Doubt::kSilent:
      return "nothing heard of it";
    case Doubt::kHung:
      return "its step does not end";
  }
  return "";
}

// Slots of the index that one tick looks at for blocks of workers that left.
constexpr int64_t kSweepSlots = 1 << 16;

// A count that should stay 0 is logged when it has doubled since: often enough to be seen, never a flood.
bool HasDoubled(int64_t count, int64_t& logged) {
  if (count == 0 || count < 2 * logged) return false;
  logged = count;
  return true;
}

}  // namespace

Cluster::Cluster(const hash::HashKey& hash_key, const Clock& clock, std::function<void()> on_change)
    : hash_key_(hash_key), clock_(clock), on_change_(std::move(on_change)) {}

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
  member->link().Open(*member);
  return member->id();
}

void Cluster::Close() {
  {
    MutexLock lock(mu_);
    closing_ = true;
  }
  for (Member* member : Members()) member->link().Close();
}

std::vector<Cluster::Member*> Cluster::Members() const {
  MutexLock lock(mu_);
  std::vector<Member*> members;
  for (const auto& member : members_) members.push_back(member.get());
  return members;
}

ClusterSnapshot Cluster::Snapshot() const {
  MutexLock lock(mu_);
  return {workers_, ledger_.Loads()};
}

WorkerWatch::Status Cluster::WatchStatus(WorkerId id) const {
  MutexLock lock(mu_);
  return members_.at(ToIndex(id))->watch().status();
}

int64_t Cluster::Resyncs(ResyncCause cause) const {
  int64_t all = 0;
  for (Member* member : Members()) all += member->watch().status().resyncs[static_cast<size_t>(cause)];
  return all;
}

void Cluster::Tick() {
  for (Member* member : Members()) {
    member->watch().Expire();
    UpdateHolder(*member);
    UpdateTrust(*member);
  }
  index_.Sweep(kSweepSlots);
  LogSurprises();
}

void Cluster::LogSurprises() {
  const int64_t not_closed = index_.not_closed();
  const int64_t refused = pending_.refused();
  bool log_not_closed = false;
  bool log_refused = false;
  {
    MutexLock lock(mu_);
    log_not_closed = HasDoubled(not_closed, logged_not_closed_);
    log_refused = HasDoubled(refused, logged_refused_);
  }
  if (log_not_closed) {
    spdlog::warn("sampled lookups that met a block without its parent in a worker's cache: {}", not_closed);
  }
  if (log_refused) spdlog::warn("blocks under way that were not credited for want of room: {}", refused);
}

std::optional<Dispatch> Cluster::TryDispatch(WorkerId id, int64_t tokens,
                                             absl::Span<const hash::BlockHash> blocks, int32_t choices) {
  std::optional<Dispatch> dispatch;
  std::optional<HolderId> holder;
  {
    MutexLock lock(mu_);
    const Worker& worker = workers_->at(ToIndex(id));
    if (!TakesCalls(worker.state)) return std::nullopt;
    holder = worker.holder;
    dispatch.emplace(
        Dispatch{ledger_.Take(id, tokens, choices), {}, &members_[ToIndex(id)]->link(), worker.address});
  }
  // Not under the lock: a long prompt has thousands of blocks. Where the holder is closed meanwhile, too much
  // or too little is credited, which only a prediction sees.
  int32_t depth = 0;
  if (holder.has_value()) index_.Match(blocks, {*holder}, absl::MakeSpan(&depth, 1));
  dispatch->credit = pending_.Credit(id, blocks.subspan(depth));
  return dispatch;
}

void Cluster::End(Dispatch dispatch, uint64_t load_version) {
  WorkerWatch* watch = nullptr;
  {
    MutexLock lock(mu_);
    watch = &members_[ToIndex(dispatch.entry.worker())]->watch();
  }
  watch->KeepCredit(std::move(dispatch.credit), load_version);
  dispatch.entry.End(load_version);
}

void Cluster::MarkDraining(WorkerId id) {
  std::string address;
  {
    MutexLock lock(mu_);
    const Worker& worker = workers_->at(ToIndex(id));
    if (!TakesCalls(worker.state)) return;
    address = worker.address;
    Publish(id, [](Worker& changed) { changed.state = WorkerState::kDraining; });
  }
  spdlog::info("worker {} is draining", address);
  on_change_();
}

absl::Status Cluster::OnReady(Member& member, ReadyWorker worker) {
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
    const int64_t total_blocks = info.model.pool_tokens / info.model.block_size;
    const bool is_another = (*workers_)[ToIndex(member.id())].epoch != info.epoch;
    if (is_another) ledger_.Forget(member.id());
    member.watch().OnReady(info.epoch, total_blocks);
    Publish(member.id(), [&](Worker& changed) {
      changed.state = WorkerState::kReady;
      changed.model = *model;
      changed.epoch = info.epoch;
      // Of another epoch there is nothing yet: no decision credits the worker with what it had.
      changed.holder = member.watch().holder();
      changed.total_blocks = static_cast<int32_t>(total_blocks);
      changed.max_requests = info.max_requests;
      changed.numerics_id = info.numerics_id;
    });
    address = (*workers_)[ToIndex(member.id())].address;
  }
  member.watch().CloseRetired();
  spdlog::info("worker {} is ready: model {} ({}), epoch {:016x}, numerics {}, version {}", address,
               info.model.id, info.model_fingerprint, info.epoch, info.numerics_id, info.version);
  on_change_();
  return absl::OkStatus();
}

void Cluster::OnDown(Member& member, const absl::Status& why) {
  const std::string problem(why.message());
  std::string address;
  bool changed = false;
  bool news = false;
  member.watch().OnDown();
  {
    MutexLock lock(mu_);
    const Worker& worker = workers_->at(ToIndex(member.id()));
    address = worker.address;
    changed = worker.state != WorkerState::kDown;
    // A worker that stays away is reported again only for another reason.
    news = !closing_ && (changed || member.last_problem != problem);
    member.last_problem = problem;
    if (changed) {
      Publish(member.id(), [](Worker& down) { down.state = WorkerState::kDown; });
    }
  }
  if (news) spdlog::warn("worker {} is down: {}", address, problem);
  if (changed) on_change_();
}

WatchVerdict Cluster::OnFrame(Member& member, const api::WatchFrame& frame) {
  const WatchVerdict verdict = member.watch().OnFrame(frame);
  UpdateHolder(member);
  if (verdict != WatchVerdict::kContinue) return verdict;
  if (const auto* load = std::get_if<api::Load>(&frame.body)) {
    ledger_.Update(member.id(), *load);
    if (load->draining) MarkDraining(member.id());
  }
  return verdict;
}

void Cluster::OnWatchEnd(Member& member, const absl::Status& why) {
  member.watch().OnEnd(absl::IsUnimplemented(why));
  UpdateHolder(member);
  bool news = false;
  std::string address;
  {
    MutexLock lock(mu_);
    const Worker& worker = workers_->at(ToIndex(member.id()));
    address = worker.address;
    news = !closing_ && IsServing(worker.state);
  }
  if (news) spdlog::warn("the watch of worker {} ended: {}", address, std::string(why.message()));
}

void Cluster::UpdateHolder(Member& member) {
  {
    MutexLock lock(mu_);
    // Read under the lock, so that what is published last is what holds.
    const std::optional<HolderId> holder = member.watch().holder();
    if ((*workers_)[ToIndex(member.id())].holder == holder) return;
    Publish(member.id(), [&](Worker& changed) { changed.holder = holder; });
  }
  member.watch().CloseRetired();
}

void Cluster::UpdateTrust(Member& member) {
  const Doubt doubt = member.watch().doubt();
  const WorkerState state = doubt == Doubt::kNone ? WorkerState::kReady : WorkerState::kSuspect;
  std::string address;
  {
    MutexLock lock(mu_);
    const Worker& worker = (*workers_)[ToIndex(member.id())];
    if (!TakesCalls(worker.state) || worker.state == state) return;
    address = worker.address;
    Publish(member.id(), [&](Worker& changed) { changed.state = state; });
  }
  spdlog::warn("worker {} is {}: {}", address, StateName(state), WhyDoubted(doubt));
  on_change_();
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
