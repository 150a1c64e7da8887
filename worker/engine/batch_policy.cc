#include "worker/engine/batch_policy.h"

namespace qanat::engine {
namespace {

class Continuous final : public BatchPolicy {
 public:
  explicit Continuous(int32_t seats) : seats_(seats) {}
  int32_t FreeSeats(int32_t running) override { return seats_ - running; }
  void OnAdmitted(int32_t, bool) override {}

 private:
  const int32_t seats_;
};

// A batch is formed from when nobody runs until a step in which nobody was admitted though no prompt was left
// to compute: the prompts of a batch are more than one step takes. A seat counts once, whoever has left it.
class Static final : public BatchPolicy {
 public:
  explicit Static(int32_t seats) : seats_(seats) {}

  int32_t FreeSeats(int32_t running) override {
    if (running == 0) free_ = seats_;
    return free_;
  }
  void OnAdmitted(int32_t admitted, bool prefilling) override {
    free_ -= admitted;
    if (admitted == 0 && !prefilling) free_ = 0;
  }

 private:
  const int32_t seats_;
  int32_t free_ = 0;  // of this batch
};

}  // namespace

std::unique_ptr<BatchPolicy> MakeBatchPolicy(Batching batching, int32_t seats) {
  if (batching == Batching::kContinuous) return std::make_unique<Continuous>(seats);
  return std::make_unique<Static>(seats);
}

}  // namespace qanat::engine
