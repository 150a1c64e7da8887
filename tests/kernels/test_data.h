// Random matrices in a GGUF file's encodings, and what they mean, written independently of the kernels.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iostream>
#include <random>
#include <vector>

#include "kernels/gemm.h"
#include "kernels/half.h"
#include "kernels/kernel_set.h"
#include "kernels/packed_matrix.h"
#include "kernels/repack.h"

namespace qanat::kernels {

inline constexpr WeightFormat kAllFormats[] = {
    WeightFormat::kF32,  WeightFormat::kF16,  WeightFormat::kBF16, WeightFormat::kQ4_0, WeightFormat::kQ4_1,
    WeightFormat::kQ5_0, WeightFormat::kQ5_1, WeightFormat::kQ8_0, WeightFormat::kQ2_K, WeightFormat::kQ3_K,
    WeightFormat::kQ4_K, WeightFormat::kQ5_K, WeightFormat::kQ6_K};

inline const char* NameOf(WeightFormat format) {
  static constexpr const char* kNames[] = {"F32",  "F16",  "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1",
                                           "Q8_0", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K"};
  return kNames[static_cast<int>(format)];
}

// The paths that this CPU runs and that must give the same bits; the first is the scalar one, which defines
// them.
inline std::vector<const KernelSet*> FastPaths() {
  std::vector<const KernelSet*> paths = {&ScalarKernels()};
  if (CpuHasAvx2()) paths.push_back(&Avx2Kernels());
  if (CpuHasAvx512()) paths.push_back(&Avx512Kernels());
  if (paths.size() < 3) std::cout << "only " << paths.size() << " of 3 paths run on this CPU\n";
  return paths;
}

inline std::vector<const KernelSet*> AllPaths() {
  std::vector<const KernelSet*> paths = FastPaths();
  paths.push_back(&ReferenceKernels());
  return paths;
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

// Where a quantised block's fp16 scale and (-1: none) minimum lie.
struct HalvesOfBlock {
  int scale;
  int minimum;
};

inline HalvesOfBlock HalvesOf(WeightFormat format) {
  switch (format) {
    case WeightFormat::kQ4_1:
    case WeightFormat::kQ5_1:
    case WeightFormat::kQ4_K:
    case WeightFormat::kQ5_K:
      return {0, 2};
    case WeightFormat::kQ2_K:
      return {80, 82};
    case WeightFormat::kQ3_K:
      return {108, -1};
    case WeightFormat::kQ6_K:
      return {208, -1};
    default:
      return {0, -1};
  }
}

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
    const HalvesOfBlock halves = HalvesOf(format);
    PutHalf(block + halves.scale, scale());
    if (halves.minimum >= 0) PutHalf(block + halves.minimum, scale());
  }
}

inline double HalfValue(const std::byte* at) {
  uint16_t half;
  std::memcpy(&half, at, 2);
  return HalfToFloat(half);
}

// `count` bits from bit `first` of a block on, the lowest first.
inline int BitsAt(const std::byte* block, int first, int count) {
  int value = 0;
  for (int bit = 0; bit < count; ++bit) {
    value |= (static_cast<int>(block[(first + bit) / 8]) >> ((first + bit) % 8) & 1) << bit;
  }
  return value;
}

// The integers of a Q4_K or Q5_K block that multiply d and dmin: 6 bits each of a table of 12 bytes.
inline int ScaleOfKBlock(const std::byte* block, int group, bool minimum) {
  const int first = 32 + (minimum ? 32 : 0);  // in bits; bytes 0..3 are of scales, 4..7 of minima
  if (group < 4) return BitsAt(block, first + group * 8, 6);
  const int low = BitsAt(block, 32 + (8 + group - 4) * 8 + (minimum ? 4 : 0), 4);
  return low + 16 * BitsAt(block, first + (group - 4) * 8 + 6, 2);
}

inline int ScaleOfQ3Block(const std::byte* block, int group) {
  const int low = BitsAt(block, (96 + group % 8) * 8 + group / 8 * 4, 4);
  return low + 16 * BitsAt(block, (96 + 8 + group % 4) * 8 + group / 4 * 2, 2) - 32;
}

// Weight `i` of a block, by the definition of the encoding.
inline double BlockValue(WeightFormat format, const std::byte* block, int i) {
  const auto byte = [&](int at) { return static_cast<int>(block[at]); };
  // Blocks of 32 have their second 16 weights in the high nibbles; blocks of 256 alternate runs of 32.
  const auto nibble = [&](int at) { return BitsAt(block, (at + i % 16) * 8 + i / 16 * 4, 4); };
  const auto run_nibble = [&](int at) {
    return BitsAt(block, (at + i / 64 * 32 + i % 32) * 8 + i / 32 % 2 * 4, 4);
  };
  const auto run_pair = [&](int at) {
    return BitsAt(block, (at + i / 128 * 32 + i % 32) * 8 + i % 128 / 32 * 2, 2);
  };
  const auto run_bit = [&](int at) { return BitsAt(block, (at + i % 32) * 8 + i / 32, 1); };
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
      return HalfValue(block) * (nibble(2) - 8);
    case WeightFormat::kQ4_1:
      return HalfValue(block) * nibble(4) + HalfValue(block + 2);
    case WeightFormat::kQ5_0:
      return HalfValue(block) * (nibble(6) + 16 * BitsAt(block, 16 + i, 1) - 16);
    case WeightFormat::kQ5_1:
      return HalfValue(block) * (nibble(8) + 16 * BitsAt(block, 32 + i, 1)) + HalfValue(block + 2);
    case WeightFormat::kQ8_0:
      return HalfValue(block) * static_cast<int8_t>(byte(2 + i));
    case WeightFormat::kQ2_K:
      return HalfValue(block + 80) * (byte(i / 16) & 15) * run_pair(16) -
             HalfValue(block + 82) * (byte(i / 16) >> 4);
    case WeightFormat::kQ3_K:
      return HalfValue(block + 108) * ScaleOfQ3Block(block, i / 16) * (run_pair(32) + 4 * run_bit(0) - 4);
    case WeightFormat::kQ4_K:
      return HalfValue(block) * ScaleOfKBlock(block, i / 32, false) * run_nibble(16) -
             HalfValue(block + 2) * ScaleOfKBlock(block, i / 32, true);
    case WeightFormat::kQ5_K:
      return HalfValue(block) * ScaleOfKBlock(block, i / 32, false) * (run_nibble(48) + 16 * run_bit(16)) -
             HalfValue(block + 2) * ScaleOfKBlock(block, i / 32, true);
    case WeightFormat::kQ6_K: {
      const int half = i / 128, run = i % 128 / 32, l = i % 32;
      const int low = byte(half * 64 + (run & 1) * 32 + l) >> (run / 2 * 4) & 15;
      const int high = byte(128 + half * 32 + l) >> (run * 2) & 3;
      return HalfValue(block + 208) * static_cast<int8_t>(byte(192 + i / 16)) * ((low | high << 4) - 32);
    }
  }
  return 0;
}

// A matrix whose blocks `make_block(block)` writes.
template <typename MakeBlock>
TestMatrix MatrixOfBlocks(WeightFormat format, int rows, int cols, const MakeBlock& make_block) {
  const FormatFacts facts = FactsOf(format);
  const int blocks_a_row = cols / facts.block_values;
  TestMatrix matrix{format, rows, cols, {}, {}, {}, {}};
  matrix.file.resize(static_cast<size_t>(rows) * blocks_a_row * facts.block_bytes);
  for (int b = 0; b < rows * blocks_a_row; ++b) {
    std::byte* block = matrix.file.data() + static_cast<size_t>(b) * facts.block_bytes;
    make_block(block);
    for (int i = 0; i < facts.block_values; ++i) matrix.values.push_back(BlockValue(format, block, i));
  }
  matrix.packed = MakePackedMatrix(format, rows, cols, nullptr);
  matrix.storage.resize(PackedBytes(matrix.packed) / 64);
  std::byte* panels = reinterpret_cast<std::byte*>(matrix.storage.data());
  matrix.packed.data = panels;
  Repack(matrix.packed, matrix.file.data(), panels, 0, NumPanels(rows));
  return matrix;
}

inline TestMatrix RandomMatrix(std::mt19937& rng, WeightFormat format, int rows, int cols) {
  return MatrixOfBlocks(format, rows, cols, [&](std::byte* block) { RandomBlock(rng, format, block); });
}

// All codes and lower-level scales of `byte`s, all fp16 scales `half`. REQUIRES: a quantised format.
inline TestMatrix UniformMatrix(WeightFormat format, int rows, int cols, std::byte byte, uint16_t half) {
  return MatrixOfBlocks(format, rows, cols, [&](std::byte* block) {
    std::memset(block, static_cast<int>(byte), FactsOf(format).block_bytes);
    const HalvesOfBlock halves = HalvesOf(format);
    PutHalf(block + halves.scale, half);
    if (halves.minimum >= 0) PutHalf(block + halves.minimum, half);
  });
}

// 64-byte aligned scratch for products.
inline std::vector<TestMatrix::Line> Scratch(int cols, int rows) {
  return std::vector<TestMatrix::Line>(GemmScratchBytes(cols, rows) / 64 + 1);
}

}  // namespace qanat::kernels
