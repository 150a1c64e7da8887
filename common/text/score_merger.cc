#include "common/text/score_merger.h"

#include <algorithm>
#include <cstddef>
#include <functional>

#include "common/text/utf8.h"

namespace qanat::text {

ScoreMerger::ScoreMerger(const std::vector<Piece>& pieces, const std::array<TokenId, 256>& byte_ids)
    : byte_ids_(byte_ids) {
  std::vector<float> scores;
  for (const Piece& piece : pieces) scores.push_back(piece.score);
  std::sort(scores.begin(), scores.end(), std::greater<>());
  pieces_.reserve(pieces.size());
  for (const Piece& piece : pieces) {
    const auto better = std::lower_bound(scores.begin(), scores.end(), piece.score, std::greater<>());
    pieces_.emplace(piece.text, Entry{piece.id, static_cast<uint32_t>(better - scores.begin())});
    longest_ = std::max(longest_, piece.text.size());
  }
}

void ScoreMerger::Append(std::string_view text, Scratch& scratch, std::vector<TokenId>& out) const {
  Cut(text, scratch);
  Run(text, scratch);
  for (size_t at = 0; at < text.size(); at += scratch.symbols_[at].size) {
    const Scratch::Symbol& symbol = scratch.symbols_[at];
    if (symbol.id >= 0) {
      out.push_back(symbol.id);
    } else {
      for (const char byte : text.substr(at, symbol.size)) AppendByte(byte, out);
    }
  }
}

void ScoreMerger::AppendByte(char byte, std::vector<TokenId>& out) const {
  const TokenId id = byte_ids_[static_cast<uint8_t>(byte)];
  if (id >= 0) out.push_back(id);
}

ScoreMerger::Entry ScoreMerger::Find(std::string_view text) const {
  if (text.size() > longest_) return kNone;
  const auto piece = pieces_.find(text);
  return piece == pieces_.end() ? kNone : piece->second;
}

void ScoreMerger::Cut(std::string_view text, Scratch& scratch) const {
  scratch.symbols_.resize(text.size());
  scratch.queue_.clear();
  uint32_t prev = 0;
  for (uint32_t at = 0; at < text.size(); at += scratch.symbols_[at].size) {
    const uint32_t size = static_cast<uint32_t>(NextUnit(text.substr(at)).length);
    scratch.symbols_[at] = {size, prev, Find(text.substr(at, size)).id, -1, 0};
    for (uint32_t i = 1; i < size; ++i) scratch.symbols_[at + i] = {0, 0, -1, -1, 0};
    prev = at;
  }
  for (uint32_t at = 0; at < text.size(); at += scratch.symbols_[at].size) Propose(text, at, scratch);
}

void ScoreMerger::Propose(std::string_view text, uint32_t left, Scratch& scratch) const {
  Scratch::Symbol& symbol = scratch.symbols_[left];
  const uint32_t right = left + symbol.size;
  const Entry entry =
      right < text.size() ? Find(text.substr(left, symbol.size + scratch.symbols_[right].size)) : kNone;
  symbol.joined = entry.id;
  symbol.rank = entry.rank;
  if (entry.id < 0) return;
  scratch.queue_.push_back((static_cast<uint64_t>(entry.rank) << 32) | left);
  std::push_heap(scratch.queue_.begin(), scratch.queue_.end(), std::greater<>());
}

void ScoreMerger::Run(std::string_view text, Scratch& scratch) const {
  std::vector<Scratch::Symbol>& symbols = scratch.symbols_;
  while (!scratch.queue_.empty()) {
    std::pop_heap(scratch.queue_.begin(), scratch.queue_.end(), std::greater<>());
    const uint64_t best = scratch.queue_.back();
    scratch.queue_.pop_back();
    const uint32_t at = static_cast<uint32_t>(best);
    Scratch::Symbol& symbol = symbols[at];
    // What stood here when the pair was entered has changed since. If what stands here now has the same rank,
    // it is as good to merge.
    if (symbol.joined < 0 || symbol.rank != best >> 32) continue;
    Scratch::Symbol& swallowed = symbols[at + symbol.size];
    symbol.id = symbol.joined;
    symbol.size += swallowed.size;
    swallowed = {0, 0, -1, -1, 0};
    const uint32_t after = at + symbol.size;
    if (after < text.size()) symbols[after].prev = at;
    if (at > 0) Propose(text, symbol.prev, scratch);
    Propose(text, at, scratch);
  }
}

}  // namespace qanat::text
