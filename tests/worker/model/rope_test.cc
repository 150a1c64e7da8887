#include "worker/model/rope.h"

#include <cmath>
#include <random>

#include "common/hash/fingerprint.h"
#include "gtest/gtest.h"

namespace qanat::model {
namespace {

TEST(RopeTest, FunctionsAgreeWithTheMathsLibrary) {
  std::mt19937_64 random(1);
  std::uniform_real_distribution<double> exponent(-30, 30);
  std::uniform_real_distribution<double> turns(-2e5, 2e5);
  for (int i = 0; i < 100000; ++i) {
    const double y = exponent(random);
    EXPECT_NEAR(internal::Exp(y) / std::exp(y), 1, 1e-14) << y;
    EXPECT_NEAR(internal::Log(std::exp(y)), y, 1e-14 * (1 + std::abs(y))) << y;
    const double t = turns(random);
    double cos = 0;
    double sin = 0;
    internal::CosSinOfTurns(t, cos, sin);
    const long double angle = 2 * std::acos(-1.0L) * (static_cast<long double>(t) - std::rint(t));
    EXPECT_NEAR(cos, static_cast<double>(std::cos(angle)), 1e-15) << t;
    EXPECT_NEAR(sin, static_cast<double>(std::sin(angle)), 1e-15) << t;
  }
}

TEST(RopeTest, TableHoldsTheRotationsOfEveryPosition) {
  for (const double base : {10000.0, 100000.0, 1e6}) {
    for (const int head_dim : {32, 64, 80}) {
      const RopeTable table = MakeRopeTable(base, head_dim, 9000);
      const int half = head_dim / 2;
      ASSERT_EQ(table.cos.size(), 9000u * half);
      for (const int position : {0, 1, 2, 63, 1000, 8191}) {
        for (int i = 0; i < half; ++i) {
          const long double angle = position * std::pow(static_cast<long double>(base), -2.0L * i / head_dim);
          EXPECT_NEAR(table.cos[position * half + i], std::cos(angle), 6e-8) << position << " " << i;
          EXPECT_NEAR(table.sin[position * half + i], std::sin(angle), 6e-8) << position << " " << i;
        }
      }
    }
  }
}

// The bits themselves: they decide the bits of every key in a cache.
TEST(RopeTest, IsTheSameOnEveryMachine) {
  const RopeTable table = MakeRopeTable(100000, 64, 8192);
  EXPECT_EQ(hash::Fingerprint(absl::MakeSpan(reinterpret_cast<const std::byte*>(table.cos.data()),
                                             table.cos.size() * sizeof(float))),
            "0c070c9fbef85104d22131ebc3b226e5");
  EXPECT_EQ(hash::Fingerprint(absl::MakeSpan(reinterpret_cast<const std::byte*>(table.sin.data()),
                                             table.sin.size() * sizeof(float))),
            "8244462ab745d97ddd313d26015361be");
}

}  // namespace
}  // namespace qanat::model
