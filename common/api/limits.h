// Bounds of the public API, as the contract's comments give them. The validator checks each before anything
// is allocated for it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace qanat::api {

inline constexpr size_t kMaxRequestIdBytes = 256;
inline constexpr size_t kMaxCacheSaltBytes = 256;
inline constexpr int kMaxMessages = 1024;
inline constexpr size_t kMaxRoleBytes = 64;
inline constexpr size_t kMaxJsonBytes = 64 << 10;
inline constexpr int kMaxChoices = 16;
inline constexpr int kMaxLogitBias = 1024;
inline constexpr int kMaxAllowedTokens = 65536;
inline constexpr size_t kMaxConstraintBytes = 64 << 10;
inline constexpr int kMaxConstraintChoices = 1024;
inline constexpr int kMaxStops = 16;
inline constexpr size_t kMaxStopBytes = 256;
inline constexpr int kMaxStopTokens = 64;
inline constexpr int kMaxLogprobs = 20;

// Bytes of text in one prompt, a conversation's roles, names and JSON included. Generous (ordinary text has
// four bytes a token), so that what is too long is told in tokens; it only bounds the work of encoding, and
// the ids that Tokenize answers with: a message holds four million of them (rpc/options.h).
inline constexpr size_t kMaxPromptBytes = 4 << 20;
inline size_t MaxPromptBytes(int32_t context_length) {
  return std::clamp<size_t>(64 * static_cast<size_t>(context_length), 64 << 10, kMaxPromptBytes);
}

// What a server receives in one message at most: the longest prompt and everything else that may come with
// it.
inline constexpr int kMaxRequestBytes = static_cast<int>(kMaxPromptBytes) + (2 << 20);

// Ids in one call of Detokenize, and the text that it answers with, before bytes that are no UTF-8 are
// replaced, by three each: as many ids may stand for much more.
inline int MaxDetokenizeIds(int32_t context_length) { return std::max(65536, context_length); }
inline constexpr size_t kMaxDetokenizedBytes = 4 << 20;

}  // namespace qanat::api
