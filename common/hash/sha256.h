// SHA-256 (FIPS 180-4), for the few bytes where a mistake or an attacker must not go unseen: the tokenizer
// that a router takes from a worker. Not for the block hash, which is keyed and far faster.
#pragma once

#include <string>
#include <string_view>

namespace qanat::hash {

// The 32 bytes of the digest. Pure; any bytes are allowed in.
std::string Sha256(std::string_view bytes);

}  // namespace qanat::hash
