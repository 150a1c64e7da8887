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
// four bytes a token), so that what is too long is told in tokens; it only bounds the work of encoding.
inline size_t MaxPromptBytes(int32_t context_length) {
  return std::max<size_t>(64 << 10, 64 * static_cast<size_t>(context_length));
}

// What a server receives in one message at most: the longest prompt and everything else that may come with
// it.
inline int MaxRequestBytes(int32_t context_length) {
  return static_cast<int>(std::max<size_t>(4 << 20, MaxPromptBytes(context_length) + (2 << 20)));
}

// Ids in one call of Detokenize.
inline int MaxDetokenizeIds(int32_t context_length) { return std::max(65536, context_length); }

}  // namespace qanat::api
