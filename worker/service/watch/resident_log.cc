#include "worker/service/watch/resident_log.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"

namespace qanat::service {

void ResidentLog::Append(const hash::SetDelta& delta) {
  MutexLock lock(mu_);
  api::Delta part;
  const auto full = [&] { return part.stored.size() + part.removed.size() == options_.frame_hashes; };
  for (const hash::BlockHash removed : delta.removed) {
    if (full()) AppendPart(std::exchange(part, {}));
    part.removed.push_back(removed);
  }
  for (const hash::BlockHash stored : delta.stored) {
    if (full()) AppendPart(std::exchange(part, {}));
    part.stored.push_back(stored);
  }
  if (!delta.empty()) AppendPart(std::move(part));
}

void ResidentLog::AppendPart(api::Delta part) {
  for (const hash::BlockHash removed : part.removed) {
    const size_t erased = resident_.erase(removed);
    QANAT_CHECK(erased == 1) << "what is removed was resident";
    residency_.Remove(removed);
  }
  for (const hash::BlockHash stored : part.stored) {
    const bool inserted = resident_.insert(stored).second;
    QANAT_CHECK(inserted) << "what is stored was not resident";
    residency_.Add(stored);
  }
  part.residency = residency_;
  ++head_;
  deltas_cost_ += Cost(part);
  deltas_.push_back(std::move(part));
  while (deltas_cost_ > options_.log_hashes) {
    deltas_cost_ -= Cost(deltas_.front());
    before_deltas_ = deltas_.front().residency;
    deltas_.pop_front();
  }
}

void ResidentLog::SetLoad(const api::Load& load) {
  MutexLock lock(mu_);
  load_ = load;
  ++load_number_;
}

const api::Residency& ResidentLog::ResidencyAt(uint64_t seq) const {
  return seq == OldestKnown() ? before_deltas_ : deltas_[seq - OldestKnown() - 1].residency;
}

ResidentLog::Reader ResidentLog::Begin(uint64_t known_epoch, uint64_t known_seq) const {
  MutexLock lock(mu_);
  Reader reader;
  reader.load_number_ = load_number_;
  if (known_epoch == epoch_ && known_seq >= OldestKnown() && known_seq <= head_) {
    reader.seq_ = known_seq;
    reader.residency_ = ResidencyAt(known_seq);
  }
  return reader;
}

std::optional<api::WatchFrame> ResidentLog::Next(Reader& reader) {
  MutexLock lock(mu_);
  if (reader.snapshot_ == nullptr && reader.seq_ < OldestKnown()) BeginSnapshot(reader);
  if (reader.snapshot_ != nullptr) return NextOfSnapshot(reader);
  if (reader.load_number_ < load_number_) {
    reader.load_number_ = load_number_;
    api::Load load = load_;
    load.residency = reader.residency_;
    return api::WatchFrame{epoch_, reader.seq_, load};
  }
  if (reader.seq_ == head_) return std::nullopt;
  const api::Delta& delta = deltas_[reader.seq_ - OldestKnown()];
  ++reader.seq_;
  reader.residency_ = delta.residency;
  return api::WatchFrame{epoch_, reader.seq_, delta};
}

void ResidentLog::BeginSnapshot(Reader& reader) {
  std::shared_ptr<const Snapshot> snapshot = snapshot_.lock();
  if (snapshot == nullptr || snapshot->seq < OldestKnown()) {
    snapshot = std::make_shared<const Snapshot>(
        Snapshot{head_, residency_, std::vector<hash::BlockHash>(resident_.begin(), resident_.end())});
    snapshot_ = snapshot;
  }
  ++num_snapshots_;
  reader.snapshot_ = std::move(snapshot);
  reader.begun_ = false;
  reader.next_hash_ = 0;
}

api::WatchFrame ResidentLog::NextOfSnapshot(Reader& reader) const {
  const Snapshot& snapshot = *reader.snapshot_;
  api::WatchFrame frame{epoch_, snapshot.seq, api::SnapshotBegin{snapshot.residency.resident_count}};
  if (!std::exchange(reader.begun_, true)) return frame;
  const size_t size = std::min(options_.frame_hashes, snapshot.hashes.size() - reader.next_hash_);
  if (size > 0) {
    const auto first = snapshot.hashes.begin() + static_cast<std::ptrdiff_t>(reader.next_hash_);
    frame.body = api::SnapshotChunk{{first, first + static_cast<std::ptrdiff_t>(size)}};
    reader.next_hash_ += size;
    return frame;
  }
  frame.body = api::SnapshotEnd{snapshot.residency};
  reader.seq_ = snapshot.seq;
  reader.residency_ = snapshot.residency;
  reader.snapshot_.reset();
  return frame;
}

int64_t ResidentLog::num_snapshots() const {
  MutexLock lock(mu_);
  return num_snapshots_;
}

void ResidentLog::CheckInvariants() const {
  MutexLock lock(mu_);
  api::Residency residency;
  for (const hash::BlockHash hash : resident_) residency.Add(hash);
  QANAT_CHECK(residency == residency_);
  QANAT_CHECK((deltas_.empty() ? before_deltas_ : deltas_.back().residency) == residency_);
  size_t cost = 0;
  for (const api::Delta& delta : deltas_) cost += Cost(delta);
  QANAT_CHECK(cost == deltas_cost_ && cost <= options_.log_hashes);
  QANAT_CHECK(head_ > deltas_.size());
}

}  // namespace qanat::service
