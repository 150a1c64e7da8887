#include "router/routing/consistent_hash.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "common/hash/rendezvous.h"
#include "router/routing/candidates.h"

namespace qanat::router {
namespace {

// As Mirrokni, Thorup and Zadimoghaddam, "Consistent hashing with bounded loads", 2016, propose.
constexpr double kLoadFactor = 1.25;
// Blocks of the prompt that tell where it belongs.
constexpr size_t kKeyBlocks = 16;

}  // namespace

Decision ConsistentHash::Pick(const RouteRequest& request, const ClusterSnapshot& snapshot) const {
  return ChooseCandidate(request, snapshot, [&](const std::vector<WorkerId>& candidates) {
    int64_t calls = 1;
    for (WorkerId id : candidates) calls += snapshot.load(id).in_flight;
    const double mean = static_cast<double>(calls) / static_cast<double>(candidates.size());
    const auto bound = static_cast<int64_t>(std::ceil(kLoadFactor * mean));
    const size_t blocks = std::min(request.hashes.size(), kKeyBlocks);
    const uint64_t key = blocks == 0 ? request.salt : request.hashes[blocks - 1];
    // The least loaded one is below the bound, so that the first in order is.
    const size_t best = Smallest(candidates, [&](size_t i) {
      const bool is_full = snapshot.load(candidates[i]).in_flight >= bound;
      return std::pair(is_full, ~hash::RendezvousWeight(key, snapshot.worker(candidates[i]).address));
    });
    return PredictRoute(request, snapshot, candidates, candidates[best]);
  });
}

}  // namespace qanat::router
