#include "common/hash/net_change.h"

#include <utility>

#include "common/base/check.h"

namespace qanat::hash {
namespace {

// Below this many entries the log may be undone ones for the most part.
constexpr size_t kSmallLog = 64;

}  // namespace

void NetChange::Note(BlockHash hash, bool stored) {
  const auto [it, inserted] = places_.try_emplace(hash, log_.size());
  if (inserted) {
    log_.push_back({hash, stored, false});
    return;
  }
  Entry& entry = log_[it->second];
  QANAT_DCHECK(entry.stored != stored) << "a hash is stored or removed twice";
  entry.undone = true;
  places_.erase(it);
  if (log_.size() > kSmallLog && log_.size() > 2 * places_.size()) DropUndone();
}

void NetChange::DropUndone() {
  size_t kept = 0;
  for (const Entry& entry : log_) {
    if (entry.undone) continue;
    places_[entry.hash] = kept;
    log_[kept++] = entry;
  }
  log_.resize(kept);
}

void NetChange::Apply(const SetDelta& delta) {
  for (const BlockHash hash : delta.stored) Store(hash);
  for (const BlockHash hash : delta.removed) Remove(hash);
}

SetDelta NetChange::Take() {
  SetDelta delta;
  for (const Entry& entry : log_) {
    if (!entry.undone) (entry.stored ? delta.stored : delta.removed).push_back(entry.hash);
  }
  log_.clear();
  places_.clear();
  return delta;
}

}  // namespace qanat::hash
