#include "common/text/byte_pair_merger.h"

#include <algorithm>
#include <functional>
#include <utility>

namespace qanat::text {
namespace {

uint64_t PairKey(TokenId left, TokenId right) {
  return (static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32) | static_cast<uint32_t>(right);
}

}  // namespace

BytePairMerger::BytePairMerger(const std::array<TokenId, 256>& byte_ids, std::vector<Merge> merges)
    : byte_ids_(byte_ids), merges_(std::move(merges)) {
  rank_of_.reserve(merges_.size());
  for (size_t rank = 0; rank < merges_.size(); ++rank) {
    rank_of_.emplace(PairKey(merges_[rank].left, merges_[rank].right), static_cast<uint32_t>(rank));
  }
}

void BytePairMerger::Append(std::string_view word, Scratch& scratch, std::vector<TokenId>& out) const {
  const uint32_t size = static_cast<uint32_t>(word.size());
  scratch.symbols_.resize(size);
  scratch.queue_.clear();
  for (uint32_t i = 0; i < size; ++i) {
    scratch.symbols_[i] = {byte_ids_[static_cast<uint8_t>(word[i])], i + 1, i - 1};
  }
  for (uint32_t i = 0; i + 1 < size; ++i) Propose(i, scratch);
  Run(scratch);
  for (uint32_t i = 0; i < size; i = scratch.symbols_[i].next) {
    if (scratch.symbols_[i].id >= 0) out.push_back(scratch.symbols_[i].id);
  }
}

void BytePairMerger::Propose(uint32_t left, Scratch& scratch) const {
  const Scratch::Symbol& symbol = scratch.symbols_[left];
  if (symbol.id < 0 || symbol.next >= scratch.symbols_.size()) return;
  const TokenId right = scratch.symbols_[symbol.next].id;
  if (right < 0) return;
  const auto rank = rank_of_.find(PairKey(symbol.id, right));
  if (rank == rank_of_.end()) return;
  scratch.queue_.push_back((static_cast<uint64_t>(rank->second) << 32) | left);
  std::push_heap(scratch.queue_.begin(), scratch.queue_.end(), std::greater<>());
}

void BytePairMerger::Run(Scratch& scratch) const {
  std::vector<Scratch::Symbol>& symbols = scratch.symbols_;
  const uint32_t size = static_cast<uint32_t>(symbols.size());
  while (!scratch.queue_.empty()) {
    std::pop_heap(scratch.queue_.begin(), scratch.queue_.end(), std::greater<>());
    const uint64_t best = scratch.queue_.back();
    scratch.queue_.pop_back();
    const Merge& merge = merges_[best >> 32];
    const uint32_t at = static_cast<uint32_t>(best);
    const uint32_t next = symbols[at].next;
    // A pair that has changed since it was entered is no longer this merge's.
    if (symbols[at].id != merge.left || next >= size || symbols[next].id != merge.right) continue;
    symbols[at].id = merge.result;
    symbols[at].next = symbols[next].next;
    symbols[next].id = -1;
    if (symbols[at].next < size) symbols[symbols[at].next].prev = at;
    if (at > 0) Propose(symbols[at].prev, scratch);
    Propose(at, scratch);
  }
}

}  // namespace qanat::text
