#include "common/hash/rendezvous.h"

#include <xxhash.h>

namespace qanat::hash {

uint64_t RendezvousWeight(uint64_t key, std::string_view node) {
  return XXH3_64bits_withSeed(node.data(), node.size(), key);
}

}  // namespace qanat::hash
