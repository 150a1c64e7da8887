// The chained hash of blocks of tokens: the one name by which router and workers speak of cached prefixes.
//
//   h_{-1} = H("qanat root", model fingerprint, block size, adapter, namespace)
//   h_i    = H(tokens of block i, h_{i-1})                       H = SipHash-1-3 under the cluster's key
//
// So equal hashes mean equal prefixes of equal tenants on equal models, up to chance collisions of 64 bits
// (the worker compares tokens, so that one costs time only). Without the key nobody can make one, nor tell
// from a hash what was asked.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/base/ids.h"
#include "common/hash/siphash.h"

namespace qanat::hash {

using BlockHash = uint64_t;

// The key when no --hash-key-file is given: the 16 bytes "qanat block hash". Everyone knows it, so it serves
// only where all tenants trust each other.
inline constexpr HashKey kPublicKey{0x6c62'2074'616e'6171, 0x6873'6168'206b'636f};

// Reads 32 hexadecimal digits (white space around them is allowed) or 16 raw bytes. NOT_FOUND,
// PERMISSION_DENIED or INVALID_ARGUMENT, naming the file and never its contents.
absl::StatusOr<HashKey> LoadHashKey(const std::string& path);

// Whose prefixes are shared with whom: requests of other namespaces never meet in a cache.
struct Namespace {
  std::array<uint8_t, 16> bytes{};

  bool operator==(const Namespace&) const = default;
};

// Computed by whoever authenticates the caller. `salt` is the caller's own (empty: none) and parts one
// tenant's callers. Fields are length-prefixed: ("a", "bc") and ("ab", "c") differ.
Namespace DeriveNamespace(const HashKey& key, std::string_view tenant, std::string_view salt);

// Spreads a hash over 64 bits for digests: a set's digest is the sum of Mix over it, mod 2^64, which an
// insertion or removal updates in place. A bijection; Mix(0) is not 0.
uint64_t Mix(BlockHash hash);

// Hashes blocks for one model, block size and key. A small value: copy it freely.
// Immutable: any number of threads may use one. No errors.
class BlockHasher {
 public:
  // REQUIRES: block_size > 0, in tokens.
  BlockHasher(const HashKey& key, std::string_view model_fingerprint, int block_size);

  // h_{-1} of a namespace.
  BlockHash Root(const Namespace& ns) const;

  // The hash of the block after `parent`'s. REQUIRES: block.size() == block_size().
  BlockHash Next(BlockHash parent, absl::Span<const TokenId> block) const;

  // Appends the hashes of the full blocks of `tokens`, which follow `parent`'s; tokens behind the last full
  // one are left out. Faster than one by one.
  void HashBlocks(BlockHash parent, absl::Span<const TokenId> tokens, std::vector<BlockHash>& hashes) const;
  // Those of a prompt.
  std::vector<BlockHash> HashPrompt(const Namespace& ns, absl::Span<const TokenId> tokens) const;

  int block_size() const { return block_size_; }

 private:
  // The end of a block: `hasher` has taken its tokens in.
  BlockHash Finish(SipHash13 hasher, BlockHash parent) const;

  HashKey key_;
  std::string model_fingerprint_;
  int block_size_;
};

}  // namespace qanat::hash
