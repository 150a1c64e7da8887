// Random matrices in a GGUF file's encodings, and what they mean, written independently of the kernels.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include "kernels/gemm.h"
#include "kernels/half.h"
#include "kernels/packed_matrix.h"
#include "kernels/repack.h"

namespace qanat::kernels {

inline constexpr WeightFormat kAllFormats[] = {WeightFormat::kF32,  WeightFormat::kF16,  WeightFormat::kBF16,
                                               WeightFormat::kQ4_0, WeightFormat::kQ4_1, WeightFormat::kQ8_0,
                                               WeightFormat::kQ6_K};

inline const char* NameOf(WeightFormat format) {
  static constexpr const char* kNames[] = {"F32", "F16", "BF16", "Q4_0", "Q4_1", "Q8_0", "Q6_K"};
  return kNames[static_cast<int>(format)];
}

inline std::vector<float> RandomFloats(std::mt19937& rng, size_t count, float scale = 1) {
  std::normal_distribution<float> normal(0, scale);
  std::vector<float> values(count);
  for (float& value : values) value = normal(rng);
  return values;
}

// A matrix as a file holds it: values at file offsets, 64-byte aligned panels beside them.
struct TestMatrix {
  WeightFormat format;
  int rows;
  int cols;
  std::vector<std::byte> file;
  std::vector<double> values;  // [rows, cols], exactly
  struct alignas(64) Line {
    std::byte bytes[64];
  };
  std::vector<Line> storage;
  PackedMatrix packed;
};

inline void PutHalf(std::byte* at, uint16_t half) { std::memcpy(at, &half, 2); }

// A block of the file: random codes, scales of about 2^-6.
inline void RandomBlock(std::mt19937& rng, WeightFormat format, std::byte* block) {
  const FormatFacts facts = FactsOf(format);
  for (int i = 0; i < facts.block_bytes; ++i) block[i] = static_cast<std::byte>(rng() & 0xFF);
  const auto scale = [&] { return static_cast<uint16_t>((rng() & 0x8000) | 0x2000 | (rng() & 0x07FF)); };
  if (format == WeightFormat::kF32) {
    const float value = RandomFloats(rng, 1, 0.05f)[0];
    std::memcpy(block, &value, 4);
  } else if (format == WeightFormat::kF16) {
    PutHalf(block, scale());
  } else if (format == WeightFormat::kBF16) {
    PutHalf(block, FloatToBf16(RandomFloats(rng, 1, 0.05f)[0]));
  } else {
    PutHalf(block + (format == WeightFormat::kQ6_K ? 208 : 0), scale());
    if (format == WeightFormat::kQ4_1) PutHalf(block + 2, scale());
  }
}

inline double HalfValue(const std::byte* at) {
  uint16_t half;
  std::memcpy(&half, at, 2);
  return HalfToFloat(half);
}

// Weight `i` of a block, by the definition of the encoding.
inline double BlockValue(WeightFormat format, const std::byte* block, int i) {
  const auto byte = [&](int at) { return static_cast<int>(block[at]); };
  switch (format) {
    case WeightFormat::kF32: {
      float value;
      std::memcpy(&value, block, 4);
      return value;
    }
    case WeightFormat::kF16:
      return HalfValue(block);
    case WeightFormat::kBF16: {
      uint16_t bits;
      std::memcpy(&bits, block, 2);
      return Bf16ToFloat(bits);
    }
    case WeightFormat::kQ4_0:
      return HalfValue(block) * ((i < 16 ? byte(2 + i) & 15 : byte(2 + i - 16) >> 4) - 8);
    case WeightFormat::kQ4_1:
      return HalfValue(block) * (i < 16 ? byte(4 + i) & 15 : byte(4 + i - 16) >> 4) + HalfValue(block + 2);
    case WeightFormat::kQ8_0:
      return HalfValue(block) * static_cast<int8_t>(byte(2 + i));
    case WeightFormat::kQ6_K: {
      const int half = i / 128, run = i % 128 / 32, l = i % 32;
      const int low = byte(half * 64 + (run & 1) * 32 + l) >> (run / 2 * 4) & 15;
      const int high = byte(128 + half * 32 + l) >> (run * 2) & 3;
      return HalfValue(block + 208) * static_cast<int8_t>(byte(192 + i / 16)) * ((low | high << 4) - 32);
    }
  }
  return 0;
}

inline TestMatrix RandomMatrix(std::mt19937& rng, WeightFormat format, int rows, int cols) {
  const FormatFacts facts = FactsOf(format);
  const int blocks_a_row = cols / facts.block_values;
  TestMatrix matrix{format, rows, cols, {}, {}, {}, {}};
  matrix.file.resize(static_cast<size_t>(rows) * blocks_a_row * facts.block_bytes);
  for (int b = 0; b < rows * blocks_a_row; ++b) {
    std::byte* block = matrix.file.data() + static_cast<size_t>(b) * facts.block_bytes;
    RandomBlock(rng, format, block);
    for (int i = 0; i < facts.block_values; ++i) matrix.values.push_back(BlockValue(format, block, i));
  }
  matrix.packed = MakePackedMatrix(format, rows, cols, nullptr);
  matrix.storage.resize(PackedBytes(matrix.packed) / 64);
  std::byte* panels = reinterpret_cast<std::byte*>(matrix.storage.data());
  matrix.packed.data = panels;
  Repack(matrix.packed, matrix.file.data(), panels, 0, NumPanels(rows));
  return matrix;
}

// 64-byte aligned scratch for products.
inline std::vector<TestMatrix::Line> Scratch(int cols, int rows) {
  return std::vector<TestMatrix::Line>(GemmScratchBytes(cols, rows) / 64 + 1);
}

}  // namespace qanat::kernels
