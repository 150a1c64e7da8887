// SentencePiece's byte-pair encoding: pieces by score.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "common/base/ids.h"

namespace qanat::text {

// The pieces of one vocabulary that merging may lead to.
// Owns its tables; the pieces' texts outlive it.
// Immutable: any number of threads may use one, each with its own Scratch.
// No errors.
class ScoreMerger {
 public:
  struct Piece {
    std::string_view text;
    TokenId id;
    float score;
  };

  // Room for one text, kept from text to text.
  class Scratch {
   private:
    friend class ScoreMerger;
    // A stretch of the text, of one character at first. The one after it begins where it ends.
    struct Symbol {
      uint32_t size;   // in bytes; 0: it is part of the symbol before
      uint32_t prev;   // where the symbol before begins
      TokenId id;      // -1: it is no piece
      TokenId joined;  // the piece that it makes with the symbol after it, -1 for none
      uint32_t rank;   // of that piece
    };
    std::vector<Symbol> symbols_;  // by position of their first byte
    std::vector<uint64_t> queue_;  // a heap: the smallest (rank, position) first
  };

  // `pieces`: no two of one text, no score that is not a number. `byte_ids`: the token of each single byte,
  // for characters that are no piece; -1 for none.
  ScoreMerger(const std::vector<Piece>& pieces, const std::array<TokenId, 256>& byte_ids);

  // Appends the tokens of `text`: beginning with its characters, the adjacent pair that makes the piece of
  // the best score, of equals the leftmost, is merged until none is left. A character that is no piece then
  // gives the tokens of its bytes. Takes n log n in the length of the text. REQUIRES: text is valid UTF-8,
  // text.size() < 2^32 - 1.
  void Append(std::string_view text, Scratch& scratch, std::vector<TokenId>& out) const;

  void AppendByte(char byte, std::vector<TokenId>& out) const;

 private:
  struct Entry {
    TokenId id;
    uint32_t rank;  // the number of better scores
  };

  static constexpr Entry kNone = {-1, 0};

  Entry Find(std::string_view text) const;
  void Cut(std::string_view text, Scratch& scratch) const;
  // Finds what the symbol at `left` makes with the one after it, and enters the pair into the queue.
  void Propose(std::string_view text, uint32_t left, Scratch& scratch) const;
  void Run(std::string_view text, Scratch& scratch) const;

  std::array<TokenId, 256> byte_ids_;
  absl::flat_hash_map<std::string_view, Entry> pieces_;
  size_t longest_ = 0;  // piece, in bytes
};

}  // namespace qanat::text
