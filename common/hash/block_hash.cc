#include "common/hash/block_hash.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <optional>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/hash/siphash_lanes.h"

namespace qanat::hash {
namespace {

constexpr size_t kKeyBytes = 16;
constexpr size_t kMostFileBytes =
    256;  // far more than a key with white space; a wrong file is not read whole

void AppendWord(uint64_t word, std::string& out) {
  out.append(reinterpret_cast<const char*>(&word), sizeof(word));
}

void AppendField(std::string_view field, std::string& out) {
  AppendWord(field.size(), out);
  out.append(field);
}

std::string_view StripSpace(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  const size_t begin = text.find_first_not_of(kSpace);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpace) - begin + 1);
}

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// The 16 bytes that 32 digits spell.
std::optional<std::string> FromHex(std::string_view digits) {
  if (digits.size() != 2 * kKeyBytes) return std::nullopt;
  std::string bytes;
  for (size_t i = 0; i < digits.size(); i += 2) {
    const int high = HexDigit(digits[i]);
    const int low = HexDigit(digits[i + 1]);
    if (high < 0 || low < 0) return std::nullopt;
    bytes.push_back(static_cast<char>(high * 16 + low));
  }
  return bytes;
}

}  // namespace

absl::StatusOr<HashKey> LoadHashKey(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return absl::ErrnoToStatus(errno, absl::StrCat("hash key file ", path));
  std::string content(kMostFileBytes, '\0');
  file.read(content.data(), static_cast<std::streamsize>(content.size()));
  content.resize(static_cast<size_t>(file.gcount()));

  std::optional<std::string> bytes = FromHex(StripSpace(content));
  if (!bytes && content.size() == kKeyBytes) bytes = content;
  if (!bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("hash key file ", path, ": must hold 32 hexadecimal digits or 16 bytes"));
  }
  HashKey key;
  std::memcpy(&key.k0, bytes->data(), sizeof(key.k0));
  std::memcpy(&key.k1, bytes->data() + sizeof(key.k0), sizeof(key.k1));
  return key;
}

Namespace DeriveNamespace(const HashKey& key, std::string_view tenant, std::string_view salt) {
  Namespace ns;
  for (uint64_t half = 0; half < 2; ++half) {
    std::string message = "qanat namespace";
    AppendWord(half, message);
    AppendField(tenant, message);
    AppendField(salt, message);
    const uint64_t hash = HashBytes<SipHash24>(key, message);
    std::memcpy(ns.bytes.data() + half * sizeof(hash), &hash, sizeof(hash));
  }
  return ns;
}

uint64_t Mix(BlockHash hash) {
  // The finalizer of SplitMix64 (Steele, Lea and Flood, 2014), its increment included.
  uint64_t x = hash + 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

BlockHasher::BlockHasher(const HashKey& key, std::string_view model_fingerprint, int block_size)
    : key_(key), model_fingerprint_(model_fingerprint), block_size_(block_size) {
  QANAT_CHECK(block_size > 0) << "block size " << block_size;
}

BlockHash BlockHasher::Root(const Namespace& ns) const {
  std::string message = "qanat root";
  AppendField(model_fingerprint_, message);
  AppendWord(static_cast<uint64_t>(block_size_), message);
  AppendField("", message);  // the adapter: none
  message.append(reinterpret_cast<const char*>(ns.bytes.data()), ns.bytes.size());
  return HashBytes<SipHash13>(key_, message);
}

BlockHash BlockHasher::Next(BlockHash parent, absl::Span<const TokenId> block) const {
  QANAT_DCHECK(block.size() == static_cast<size_t>(block_size_));
  // The parent last: the tokens of the next blocks are taken in while it is not known yet, and only the end
  // of each block waits for the block before.
  SipHash13 hasher(key_);
  const size_t pairs = block.size() / 2;
  for (size_t i = 0; i < pairs; ++i) {
    uint64_t word;
    std::memcpy(&word, block.data() + 2 * i, sizeof(word));
    hasher.Word(word);
  }
  if (block.size() % 2 != 0) hasher.Word(static_cast<uint32_t>(block.back()));
  return Finish(hasher, parent);
}

BlockHash BlockHasher::Finish(SipHash13 hasher, BlockHash parent) const {
  const uint64_t words = (static_cast<uint64_t>(block_size_) + 1) / 2;
  hasher.Word(parent);
  return hasher.Finish(0, words * sizeof(uint64_t) + sizeof(parent));
}

void BlockHasher::HashBlocks(BlockHash parent, absl::Span<const TokenId> tokens,
                             std::vector<BlockHash>& hashes) const {
  const size_t size = static_cast<size_t>(block_size_);
  hashes.reserve(hashes.size() + tokens.size() / size);
  // Blocks of an odd size are no whole words.
  for (; size % 2 == 0 && tokens.size() >= kLanes * size; tokens.remove_prefix(kLanes * size)) {
    const SipLanes states = TakeIn(key_, tokens.data(), block_size_ / 2);
    for (int lane = 0; lane < kLanes; ++lane) {
      hashes.push_back(parent = Finish(states.State(lane), parent));
    }
  }
  for (; tokens.size() >= size; tokens.remove_prefix(size)) {
    hashes.push_back(parent = Next(parent, tokens.first(size)));
  }
}

std::vector<BlockHash> BlockHasher::HashPrompt(const Namespace& ns, absl::Span<const TokenId> tokens) const {
  std::vector<BlockHash> hashes;
  HashBlocks(Root(ns), tokens, hashes);
  return hashes;
}

}  // namespace qanat::hash
