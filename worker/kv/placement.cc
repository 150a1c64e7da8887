#include "worker/kv/placement.h"

#include <utility>

#include "worker/kv/first_fit_order.h"
#include "worker/kv/lru_order.h"

namespace qanat::kv {
namespace {

class Paged final : public Placement {
 public:
  std::unique_ptr<EvictionOrder> MakeOrder(int32_t num_blocks) override {
    auto order = std::make_unique<LruOrder>(num_blocks);
    order_ = order.get();
    return order;
  }
  int32_t Held(int32_t num_tokens, int32_t) const override { return num_tokens; }
  bool Fits(int32_t num_blocks, int32_t promised, int32_t free) const override {
    return num_blocks + promised <= free;
  }
  BlockId Next(BlockId, int32_t) const override { return order_->Next(); }

 private:
  const EvictionOrder* order_ = nullptr;
};

// Nobody is promised anything: what a table may ever need it has from the first on.
class Contiguous final : public Placement {
 public:
  std::unique_ptr<EvictionOrder> MakeOrder(int32_t) override {
    auto order = std::make_unique<FirstFitOrder>();
    order_ = order.get();
    return order;
  }
  int32_t Held(int32_t, int32_t longest) const override { return longest; }
  bool Fits(int32_t num_blocks, int32_t, int32_t) const override {
    return order_->FindRun(num_blocks) != kNoBlock;
  }
  BlockId Next(BlockId last, int32_t num_blocks) const override {
    return last == kNoBlock ? order_->FindRun(num_blocks) : last + 1;
  }

 private:
  const FirstFitOrder* order_ = nullptr;
};

}  // namespace

std::unique_ptr<Placement> MakePlacement(Layout layout) {
  if (layout == Layout::kContiguous) return std::make_unique<Contiguous>();
  return std::make_unique<Paged>();
}

}  // namespace qanat::kv
