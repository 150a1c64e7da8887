// Rendezvous hashing (Thaler and Ravishankar, "A name-based mapping scheme for rendezvous", 1996).
#pragma once

#include <cstdint>
#include <string_view>

namespace qanat::hash {

// The weight of a node for a key: of any set of nodes the heaviest takes the key, so that all who know the
// nodes' names agree without talking, and a node that leaves gives up its own keys only.
uint64_t RendezvousWeight(uint64_t key, std::string_view node);

}  // namespace qanat::hash
