#include "kernels/attention.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <random>

#include "kernels/half.h"
#include "kernels/kernel_set.h"
#include "tests/kernels/test_data.h"

namespace qanat::kernels {
namespace {

struct Shape {
  int num_heads;
  int num_kv_heads;
  int head_dim;
  bool interleaved;
  int window = 0;
  int Width() const { return (num_heads + 2 * num_kv_heads) * head_dim; }
};

constexpr Shape kShapes[] = {{9, 3, 64, true}, {4, 2, 32, false}, {4, 1, 32, true},  {2, 2, 16, false},
                             {8, 1, 64, true}, {7, 1, 80, false}, {4, 2, 128, true}, {5, 1, 256, false}};
constexpr Shape kWindowed[] = {{4, 1, 32, false, 8},   {9, 3, 32, true, 1},   {4, 2, 32, false, 65},
                               {8, 1, 32, true, 200},  {3, 1, 32, true, 17},  {1, 1, 32, false, 64},
                               {2, 2, 32, false, 299}, {4, 1, 32, true, 300}, {2, 1, 32, true, 1 << 30}};

// A sequence's queries, keys and values and the rotations, from which any cache can be filled.
struct Sequence {
  Sequence(std::mt19937& rng, const Shape& shape, int length)
      : shape(shape),
        length(length),
        qkv(RandomFloats(rng, static_cast<size_t>(length) * shape.Width(), 1.5f)) {
    for (int i = 0; i < length * shape.head_dim / 2; ++i) {
      const double angle = static_cast<double>(rng()) / 1e8;
      cos.push_back(static_cast<float>(std::cos(angle)));
      sin.push_back(static_cast<float>(std::sin(angle)));
    }
  }
  Shape shape;
  int length;
  std::vector<float> qkv;
  std::vector<float> cos;
  std::vector<float> sin;
};

// One layer's cache, all of it 0xFF until something is stored.
class Cache {
 public:
  Cache(const KernelSet& path, const Shape& shape, int num_blocks) : path_(path), shape_(shape) {
    storage_.resize(2 * KvHalfBytes(path.kv_element, shape.head_dim) * shape.num_kv_heads * num_blocks / 64);
    std::memset(storage_.data(), 0xFF, storage_.size() * 64);
  }

  // Stores and attends rows [begin, begin + rows) as one step of a sequence; returns their outputs.
  std::vector<float> Step(const Sequence& sequence, const std::vector<int32_t>& table, int begin, int rows,
                          bool by_partition) {
    std::vector<float> qkv(sequence.qkv.begin() + static_cast<int64_t>(begin) * shape_.Width(),
                           sequence.qkv.begin() + static_cast<int64_t>(begin + rows) * shape_.Width());
    const KvLayer layer = {reinterpret_cast<std::byte*>(storage_.data()), shape_.num_kv_heads,
                           shape_.head_dim};
    path_.rope_store({qkv.data(), shape_.Width(), shape_.num_heads, sequence.cos.data(), sequence.sin.data(),
                      shape_.interleaved, layer, table.data(), begin},
                     0, rows);
    const int out_width = shape_.num_heads * shape_.head_dim;
    std::vector<float> out(static_cast<size_t>(rows) * out_width);
    const AttentionParams params = {qkv.data(),
                                    shape_.Width(),
                                    out.data(),
                                    out_width,
                                    shape_.num_heads,
                                    layer,
                                    table.data(),
                                    begin,
                                    1.0f / std::sqrt(static_cast<float>(shape_.head_dim)),
                                    shape_.window};
    for (int head = 0; head < shape_.num_kv_heads; ++head) {
      if (!by_partition) {
        path_.attend(params, head, 0, rows);
        continue;
      }
      for (int row = 0; row < rows; ++row) AttendByPartition(params, head, row);
    }
    return out;
  }

  // Key and value of a token become NaN.
  void Forget(const std::vector<int32_t>& table, int position) {
    std::vector<float> qkv(shape_.Width(), NAN);
    const std::vector<float> angles(static_cast<size_t>(position + 1) * shape_.head_dim / 2, 1.0f);
    const KvLayer layer = {reinterpret_cast<std::byte*>(storage_.data()), shape_.num_kv_heads,
                           shape_.head_dim};
    path_.rope_store({qkv.data(), shape_.Width(), shape_.num_heads, angles.data(), angles.data(),
                      shape_.interleaved, layer, table.data(), position},
                     0, 1);
  }

 private:
  void AttendByPartition(const AttentionParams& params, int head, int row) {
    const int group = shape_.num_heads / shape_.num_kv_heads;
    const int partitions = NumPartitions(params.first_position + row);
    std::vector<AttentionPartial> partials(partitions * group);
    for (int p = partitions - 1; p >= FirstPartition(params, params.first_position + row); --p)
      path_.attend_partition(params, head, row, p, &partials[p * group]);
    path_.merge_partitions(params, head, row, partials.data());
  }

  const KernelSet& path_;
  Shape shape_;
  std::vector<TestMatrix::Line> storage_;
};

std::vector<int32_t> RandomTable(std::mt19937& rng, int length, int num_blocks) {
  std::vector<int32_t> table(num_blocks);
  std::iota(table.begin(), table.end(), 0);
  std::shuffle(table.begin(), table.end(), rng);
  table.resize((length + kBlockTokens - 1) / kBlockTokens);
  return table;
}

// All outputs of a sequence, computed `chunk` rows at a time in a cache with spare blocks.
std::vector<float> Outputs(const KernelSet& path, const Sequence& sequence, std::mt19937& rng, int chunk,
                           bool by_partition = false) {
  const int num_blocks = sequence.length / kBlockTokens + 4;
  Cache cache(path, sequence.shape, num_blocks);
  const std::vector<int32_t> table = RandomTable(rng, sequence.length, num_blocks);
  std::vector<float> out;
  for (int begin = 0; begin < sequence.length; begin += chunk) {
    const std::vector<float> rows =
        cache.Step(sequence, table, begin, std::min(chunk, sequence.length - begin), by_partition);
    out.insert(out.end(), rows.begin(), rows.end());
  }
  return out;
}

// The definition in double precision, keys and values rounded to bf16 where the cache does.
class Twin {
 public:
  Twin(const Sequence& sequence, bool round) : shape_(sequence.shape) {
    const int heads = shape_.num_heads + 2 * shape_.num_kv_heads;
    for (int row = 0; row < sequence.length; ++row) {
      for (int head = 0; head < heads; ++head) {
        const bool rotate = head < shape_.num_heads + shape_.num_kv_heads;
        heads_.push_back(Head(sequence, row, head, rotate, round && head >= shape_.num_heads));
      }
    }
  }

  std::vector<double> Row(int row, int head) const {
    const int kv_head = head / (shape_.num_heads / shape_.num_kv_heads);
    std::vector<double> weights;
    double total = 0;
    const int first = shape_.window > 0 ? std::max(0, row - shape_.window + 1) : 0;
    for (int j = first; j <= row; ++j) {
      const std::vector<double>& q = At(row, head);
      const double score =
          std::inner_product(q.begin(), q.end(), At(j, shape_.num_heads + kv_head).begin(), 0.0);
      weights.push_back(std::exp(score / std::sqrt(shape_.head_dim)));
      total += weights.back();
    }
    std::vector<double> out(shape_.head_dim);
    for (int j = first; j <= row; ++j) {
      const std::vector<double>& v = At(j, shape_.num_heads + shape_.num_kv_heads + kv_head);
      for (int i = 0; i < shape_.head_dim; ++i) out[i] += weights[j - first] / total * v[i];
    }
    return out;
  }

 private:
  const std::vector<double>& At(int row, int head) const {
    return heads_[static_cast<size_t>(row) * (shape_.num_heads + 2 * shape_.num_kv_heads) + head];
  }

  static std::vector<double> Head(const Sequence& sequence, int row, int head, bool rotate, bool round) {
    const int dim = sequence.shape.head_dim;
    const float* x = &sequence.qkv[static_cast<size_t>(row) * sequence.shape.Width() + head * dim];
    std::vector<double> out(x, x + dim);
    for (int i = 0; rotate && i < dim / 2; ++i) {
      const int a = sequence.shape.interleaved ? 2 * i : i;
      const int b = sequence.shape.interleaved ? 2 * i + 1 : i + dim / 2;
      const double c = sequence.cos[row * dim / 2 + i], s = sequence.sin[row * dim / 2 + i];
      out[a] = x[a] * c - x[b] * s;
      out[b] = x[a] * s + x[b] * c;
    }
    for (double& value : out) {
      if (round) value = Bf16ToFloat(FloatToBf16(static_cast<float>(value)));
    }
    return out;
  }

  const Shape shape_;
  std::vector<std::vector<double>> heads_;
};

std::vector<Shape> AllShapes() {
  std::vector<Shape> shapes(std::begin(kShapes), std::end(kShapes));
  shapes.insert(shapes.end(), std::begin(kWindowed), std::end(kWindowed));
  return shapes;
}

TEST(AttentionTest, EqualsTheDefinitionInDoublePrecision) {
  std::mt19937 rng(1);
  for (const KernelSet* path : AllPaths()) {
    for (const Shape& shape : AllShapes()) {
      const Sequence sequence(rng, shape, shape.head_dim == 32 ? 330 : 66);
      const std::vector<float> out = Outputs(*path, sequence, rng, 50);
      const bool rounds = path->kv_element == KvElement::kBF16;
      const Twin twin(sequence, rounds);
      for (const int row : {0, 1, 15, 16, 63, 64, 255, 256, 259, 298, 299, 300, 329}) {
        if (row >= sequence.length) break;
        for (const int head : {0, shape.num_heads - 1}) {
          const std::vector<double> expected = twin.Row(row, head);
          for (int i = 0; i < shape.head_dim; ++i) {
            // A key on the edge between two bf16 numbers may round the other way in float32: half a step of
            // bf16.
            ASSERT_NEAR(out[(row * shape.num_heads + head) * shape.head_dim + i], expected[i],
                        rounds ? 4e-3 : 2e-5)
                << path->name << " row " << row << " head " << head << " dim " << i << " window "
                << shape.window;
          }
        }
      }
    }
  }
}

TEST(AttentionTest, BitsDependOnNeitherChunksNorBlocksNorPartitioning) {
  std::mt19937 rng(2);
  for (const KernelSet* path : AllPaths()) {
    for (const Shape& shape :
         {kShapes[0], kShapes[1], kShapes[4], kWindowed[0], kWindowed[2], kWindowed[3]}) {
      const Sequence sequence(rng, shape, shape.head_dim == 32 ? 300 : 70);
      const std::vector<float> whole = Outputs(*path, sequence, rng, sequence.length);
      for (const int chunk : {1, 7, 64}) {
        ASSERT_EQ(Outputs(*path, sequence, rng, chunk), whole) << path->name << " chunks of " << chunk;
      }
      ASSERT_EQ(Outputs(*path, sequence, rng, 30, true), whole) << path->name << " by partition";
    }
  }
}

TEST(AttentionTest, FastPathsGiveTheSameBits) {
  std::mt19937 rng(3);
  for (int trial = 0; trial < 24; ++trial) {
    Shape shape = kShapes[trial % std::size(kShapes)];
    if (trial % 2 == 1) shape.window = 1 + static_cast<int>(rng() % 100);
    shape.num_kv_heads = 1 + static_cast<int>(rng() % 2);
    shape.num_heads = shape.num_kv_heads * (1 + static_cast<int>(rng() % (trial % 4 == 0 ? 14 : 5)));
    // The scalar path is slow: long sequences have small heads.
    const Sequence sequence(rng, shape, 1 + static_cast<int>(rng() % (shape.head_dim <= 32 ? 300 : 80)));
    const int chunk = 1 + static_cast<int>(rng() % 80);
    const std::vector<float> scalar = Outputs(ScalarKernels(), sequence, rng, chunk);
    for (const KernelSet* path : FastPaths()) {
      if (path == &ScalarKernels()) continue;
      const std::vector<float> vector = Outputs(*path, sequence, rng, 1 + static_cast<int>(rng() % 80));
      ASSERT_EQ(std::memcmp(scalar.data(), vector.data(), scalar.size() * sizeof(float)), 0)
          << path->name << ", " << shape.num_heads << "/" << shape.num_kv_heads << " x " << shape.head_dim
          << ", window " << shape.window << ", " << sequence.length;
    }
  }
}

TEST(AttentionTest, ReadsNoTokenThatItDoesNotSee) {
  // Every slot that is not stored yet holds NaN, in the last block and in the spare ones; so does every token
  // that has left the window.
  std::mt19937 rng(4);
  for (const KernelSet* path : AllPaths()) {
    for (const Shape& shape : AllShapes()) {
      const Sequence sequence(rng, shape, 83);
      Cache cache(*path, shape, 10);
      const std::vector<int32_t> table = RandomTable(rng, sequence.length, 10);
      for (int begin = 0; begin < sequence.length; begin += 5) {
        const int rows = std::min(5, sequence.length - begin);
        if (shape.window > 0) {
          for (int key = 0; key <= begin - shape.window; ++key) cache.Forget(table, key);
        }
        for (const bool by_partition : {false, true}) {
          for (const float value : cache.Step(sequence, table, begin, rows, by_partition))
            ASSERT_TRUE(std::isfinite(value)) << path->name << " window " << shape.window << " at " << begin;
        }
      }
    }
  }
}

}  // namespace
}  // namespace qanat::kernels
