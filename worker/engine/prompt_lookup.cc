#include "worker/engine/prompt_lookup.h"

#include <algorithm>

#include "common/base/check.h"

namespace qanat::engine {
namespace {

constexpr int32_t kMaxPause = 64;

uint64_t HashOf(absl::Span<const TokenId> gram) {
  uint64_t hash = 0;
  for (const TokenId token : gram) {
    hash = (hash ^ static_cast<uint64_t>(token)) * 0x9e3779b97f4a7c15;
    hash ^= hash >> 32;
  }
  return hash;
}

}  // namespace

absl::Span<const TokenId> PromptLookup::Propose(absl::Span<const TokenId> tokens, int32_t limit) {
  const auto size = static_cast<int32_t>(tokens.size());
  QANAT_DCHECK(size >= last_size_);
  last_size_ = size;
  if (size < silent_until_) return {};
  if (!Enter(tokens)) return {};
  int32_t behind = Find(long_, tokens, kLongGram);
  if (behind == 0) behind = Find(short_, tokens, kShortGram);
  if (behind == 0) return {};
  return tokens.subspan(behind, std::min({limit, length_, size - behind}));
}

void PromptLookup::Learn(int32_t proposed, int32_t accepted) {
  QANAT_CHECK(proposed > 0 && accepted >= 0 && accepted <= proposed);
  length_ = std::min(kMaxDrafts, accepted == proposed ? 2 * length_ : accepted + 1);
  if (accepted > 0) {
    pause_ = 1;
    return;
  }
  silent_until_ = last_size_ + 1 + pause_;
  pause_ = std::min(kMaxPause, 2 * pause_);
}

bool PromptLookup::Enter(absl::Span<const TokenId> tokens) {
  const auto size = static_cast<int32_t>(tokens.size());
  for (const int32_t end = std::min(size, entered_ + kMaxEntered); entered_ < end; ++entered_) {
    if (entered_ >= kLongGram) long_[HashOf(tokens.subspan(entered_ - kLongGram, kLongGram))] = entered_;
    if (entered_ >= kShortGram) short_[HashOf(tokens.subspan(entered_ - kShortGram, kShortGram))] = entered_;
  }
  return entered_ == size;
}

int32_t PromptLookup::Find(const Index& index, absl::Span<const TokenId> tokens, int32_t gram) const {
  if (static_cast<int32_t>(tokens.size()) < gram) return 0;
  const absl::Span<const TokenId> last = tokens.last(gram);
  const auto found = index.find(HashOf(last));
  if (found == index.end()) return 0;
  // Hashes collide.
  return tokens.subspan(found->second - gram, gram) == last ? found->second : 0;
}

}  // namespace qanat::engine
