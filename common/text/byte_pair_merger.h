// Byte-pair encoding of one word.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "common/base/ids.h"

namespace qanat::text {

// The merges of one vocabulary, compiled to ids.
// Owns its tables.
// Immutable: any number of threads may use one, each with its own Scratch.
// No errors.
class BytePairMerger {
 public:
  struct Merge {
    TokenId left;
    TokenId right;
    TokenId result;
  };

  // Room for one word, kept from word to word.
  class Scratch {
   private:
    friend class BytePairMerger;
    struct Symbol {
      TokenId id;     // -1: no token begins here (merged into the symbol before, or a byte without a piece)
      uint32_t next;  // where the symbol after it begins
      uint32_t prev;
    };
    std::vector<Symbol> symbols_;  // by position of their first byte
    std::vector<uint64_t> queue_;  // a heap: the smallest (rank, position) first
  };

  // `byte_ids`: the token of each single byte, -1 for none. `merges`: best first; of two of one pair the
  // first counts.
  BytePairMerger(const std::array<TokenId, 256>& byte_ids, std::vector<Merge> merges);

  // Appends the tokens of `word`: beginning with its bytes, the adjacent pair of best rank, of equals the
  // leftmost, is merged until none is left. Bytes without a piece give nothing and part their neighbours.
  // Takes n log n in the length of the word. REQUIRES: word.size() < 2^32 - 1.
  void Append(std::string_view word, Scratch& scratch, std::vector<TokenId>& out) const;

 private:
  // Enters the pair that begins at `left` into the queue, if it can merge.
  void Propose(uint32_t left, Scratch& scratch) const;
  void Run(Scratch& scratch) const;

  std::array<TokenId, 256> byte_ids_;
  std::vector<Merge> merges_;                        // by rank
  absl::flat_hash_map<uint64_t, uint32_t> rank_of_;  // of a pair: left << 32 | right
};

}  // namespace qanat::text
