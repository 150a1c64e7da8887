// Finds tokens that are recognised as a whole, before text is cut into words.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "absl/container/flat_hash_map.h"
#include "common/base/ids.h"
#include "common/text/vocabulary.h"

namespace qanat::text {

// The user-defined and reserved (control and unknown) tokens of a vocabulary, as a tree of bytes.
// Owns its tree.
// Immutable: any number of threads may use one.
// No errors.
class SpecialTokens {
 public:
  struct Match {
    size_t begin;
    size_t end;
    TokenId id;
  };

  explicit SpecialTokens(const Vocabulary& vocabulary);

  // The first special token that begins in [from, to), of several there the longest. It may end behind `to`,
  // but a reserved one must end by `reserved_end`. Time: the bytes passed over times the length of a token
  // at worst, in ordinary text the bytes.
  std::optional<Match> Find(std::string_view text, size_t from, size_t to, size_t reserved_end) const;

 private:
  struct Node {
    TokenId id = -1;  // the token that ends here
    bool reserved = false;
  };

  void Insert(std::string_view token, Node end);

  std::array<bool, 256> begins_{};                    // a token begins with this byte
  absl::flat_hash_map<uint64_t, uint32_t> children_;  // node << 8 | byte
  std::vector<Node> nodes_;
};

}  // namespace qanat::text
