// The softmax of one tile of keys in vectors of 16: the steps of attention.h.
#pragma once

#include "kernels/attention.h"
#include "kernels/cpu/unroll.h"
#include "kernels/cpu/vectors.h"
#include "kernels/exp2.h"

namespace qanat::kernels::QANAT_KERNEL_ISA {

constexpr int kTileBlocks = kTileKeys / kBlockTokens;

static inline Floats Exp2Vector(Floats x) {
  // The operand order lets NaN through.
  const Floats bounded = Min(Broadcast(kExp2Max), x);
  const Floats t = Add(bounded, Broadcast(kExp2Round));
  const Floats f = Sub(bounded, Sub(t, Broadcast(kExp2Round)));
  Floats p = Fma(f, Broadcast(kExp2C6), Broadcast(kExp2C5));
  p = Fma(f, p, Broadcast(kExp2C4));
  p = Fma(f, p, Broadcast(kExp2C3));
  p = Fma(f, p, Broadcast(kExp2C2));
  p = Fma(f, p, Broadcast(kExp2C1));
  p = Fma(f, p, Broadcast(1.0f));
  const Floats power = PowerFromBits(t, FloatBits(kExp2Round) - 127u);
  return ZeroWhereLess(x, Broadcast(kExp2Min), Mul(p, power));
}

// The lanes of block `b` that are seen.
static inline Lanes Visible(SeenKeys seen, int b) {
  return Without(FirstLanes(seen.end - b * kBlockTokens), FirstLanes(seen.begin - b * kBlockTokens));
}

// kWhole: all 64 keys are visible, which needs no masks.
template <bool kWhole>
static inline float TileMax(SeenKeys seen, const float* p) {
  const Floats lowest = Broadcast(BitsToFloat(0xFF800000u));
  Floats max = lowest;
  QANAT_UNROLL
  for (int b = 0; b < kTileBlocks; ++b) {
    const Floats score = Load(p + b * kBlockTokens);
    max = Max(max, kWhole ? score : Select(Visible(seen, b), score, lowest));
  }
  return TreeMax(max);
}

// Scores become probabilities; returns their sum.
template <bool kWhole>
static inline float Exponentiate(SeenKeys seen, float max, float* p) {
  Floats lanes[kTileBlocks];
  QANAT_UNROLL
  for (int b = 0; b < kTileBlocks; ++b) {
    const Floats value = Exp2Vector(Sub(Load(p + b * kBlockTokens), Broadcast(max)));
    lanes[b] = kWhole ? value : Select(Visible(seen, b), value, Zero());
    Store(p + b * kBlockTokens, lanes[b]);
  }
  return TreeSum(Add(Add(lanes[0], lanes[1]), Add(lanes[2], lanes[3])));
}

}  // namespace qanat::kernels::QANAT_KERNEL_ISA
