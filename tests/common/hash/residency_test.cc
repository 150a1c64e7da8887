#include "common/hash/residency.h"

#include "gtest/gtest.h"

namespace qanat::hash {
namespace {

TEST(ResidencyTest, ForgetsWhatWasRemoved) {
  Residency one;
  one.Add(10);
  Residency two = one;
  two.Add(11);
  EXPECT_NE(one, two);
  two.Remove(11);
  EXPECT_EQ(one, two);
}

TEST(ResidencyTest, KnowsNoOrder) {
  Residency one;
  Residency two;
  for (BlockHash hash : {1, 2, 3}) one.Add(hash);
  for (BlockHash hash : {3, 1, 2}) two.Add(hash);
  EXPECT_EQ(one, two);
}

}  // namespace
}  // namespace qanat::hash
