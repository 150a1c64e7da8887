#include "worker/model/weights/gguf.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "common/base/error.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/fakes/gguf_builder.h"

namespace qanat::model {
namespace {

using fakes::GgufBuilder;
using fakes::TinyLlama;
using testing::AllOf;
using testing::HasSubstr;

using Bytes = std::vector<std::byte>;

absl::StatusOr<std::unique_ptr<GgufFile>> Parse(const Bytes& bytes) {
  return GgufFile::Parse("tiny.gguf", bytes);
}

TEST(GgufTest, ReadsKeysOfEveryType) {
  GgufBuilder builder;
  builder.Set("u8", GgufBuilder::kU8, GgufBuilder::Bytes<uint8_t>(200));
  builder.Set("i8", GgufBuilder::kI8, GgufBuilder::Bytes<int8_t>(-5));
  builder.Set("u16", GgufBuilder::kU16, GgufBuilder::Bytes<uint16_t>(60000));
  builder.Set("i16", GgufBuilder::kI16, GgufBuilder::Bytes<int16_t>(300));
  builder.Set("u32", GgufBuilder::kU32, GgufBuilder::Bytes<uint32_t>(4000000000));
  builder.Set("i32", GgufBuilder::kI32, GgufBuilder::Bytes<int32_t>(7));
  builder.Set("u64", GgufBuilder::kU64, GgufBuilder::Bytes<uint64_t>(8192));
  builder.Set("huge", GgufBuilder::kU64, GgufBuilder::Bytes<uint64_t>(~uint64_t{0}));
  builder.Set("i64", GgufBuilder::kI64, GgufBuilder::Bytes<int64_t>(9));
  builder.Set("f64", GgufBuilder::kF64, GgufBuilder::Bytes<double>(0.5));
  builder.Set("f64 infinite", GgufBuilder::kF64, GgufBuilder::Bytes<double>(1e300));
  builder.Set("nan", GgufBuilder::kF32, GgufBuilder::Bytes<uint32_t>(0x7fc00000));
  builder.SetF32("f32", 1.25f);
  builder.SetBool("bool", true);
  builder.SetString("string", "text");
  builder.SetStrings("strings", {"one", "", "three"});
  builder.SetI32s("i32s", {1, -2});
  builder.SetF32s("f32s", {0.5f, -1000});
  const Bytes bytes = builder.Build();
  const auto file = Parse(bytes);
  ASSERT_TRUE(file.ok()) << file.status();
  const GgufFile& gguf = **file;
  EXPECT_EQ(gguf.GetU32("u8").value(), 200u);
  EXPECT_EQ(gguf.GetU32("u16").value(), 60000u);
  EXPECT_EQ(gguf.GetU32("i16").value(), 300u);
  EXPECT_EQ(gguf.GetU32("u32").value(), 4000000000u);
  EXPECT_EQ(gguf.GetU32("i32").value(), 7u);
  EXPECT_EQ(gguf.GetU32("u64").value(), 8192u);
  EXPECT_EQ(gguf.GetU32("i64").value(), 9u);
  EXPECT_EQ(gguf.GetF32("f32").value(), 1.25f);
  EXPECT_EQ(gguf.GetF32("f64").value(), 0.5f);
  EXPECT_TRUE(gguf.GetBool("bool").value());
  EXPECT_EQ(gguf.GetString("string").value(), "text");
  EXPECT_THAT(gguf.GetStrings("strings").value(), testing::ElementsAre("one", "", "three"));
  EXPECT_THAT(gguf.GetI32s("i32s").value(), testing::ElementsAre(1, -2));
  EXPECT_THAT(gguf.GetF32s("f32s").value(), testing::ElementsAre(0.5f, -1000));
  EXPECT_EQ(gguf.GetArraySize("strings").value(), 3u);
  for (const char* key : {"i8", "huge", "f32", "string", "strings", "nan", "f64 infinite"}) {
    EXPECT_THAT(gguf.GetU32(key).status().message(), AllOf(HasSubstr("tiny.gguf"), HasSubstr(key))) << key;
  }
  for (const char* key : {"u32", "nan", "f64 infinite"}) {
    EXPECT_EQ(gguf.GetF32(key).status().code(), absl::StatusCode::kInvalidArgument) << key;
  }
  EXPECT_FALSE(gguf.GetBool("u8").ok());
  EXPECT_FALSE(gguf.GetString("strings").ok());
  EXPECT_FALSE(gguf.GetStrings("i32s").ok());
  EXPECT_FALSE(gguf.GetI32s("strings").ok());
  EXPECT_FALSE(gguf.GetF32s("i32s").ok());
  EXPECT_FALSE(gguf.GetF32s("f32").ok());
  EXPECT_FALSE(gguf.GetArraySize("u8").ok());
}

TEST(GgufTest, TellsAnAbsentKeyFromAWrongOne) {
  GgufBuilder builder;
  builder.SetString("text", "x");
  const Bytes bytes = builder.Build();
  const auto file = Parse(bytes);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ((*file)->GetU32("absent").status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ((*file)->GetU32("absent").status().message(), "tiny.gguf: absent: missing");
  EXPECT_EQ((*file)->GetU32Or("absent", 3).value(), 3u);
  EXPECT_EQ((*file)->GetStringOr("absent", "none").value(), "none");
  EXPECT_EQ((*file)->GetU32Or("text", 3).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(FieldOf((*file)->GetU32("text").status()), "text");
}

TEST(GgufTest, FindsTensorsWhereTheFileHasThem) {
  GgufBuilder builder;
  builder.alignment = 64;
  builder.SetU32("general.alignment", 64);
  builder.AddTensor("first", {3, 2});
  auto& second = builder.AddTensor("second", {64, 2, 1, 2});
  second.type = 3;  // Q4_1: blocks of 32 in 20 bytes
  second.bytes = 8 * 20;
  const Bytes bytes = builder.Build();
  const auto file = Parse(bytes);
  ASSERT_TRUE(file.ok()) << file.status();
  ASSERT_EQ((*file)->tensors().size(), 2u);
  const GgufTensor* first = (*file)->FindTensor("first");
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(first->cols(), 3);
  EXPECT_EQ(first->rows(), 2);
  EXPECT_EQ(first->data.size(), 24u);
  EXPECT_EQ((first->data.data() - bytes.data()) % 64, 0);
  const GgufTensor* quantised = (*file)->FindTensor("second");
  ASSERT_NE(quantised, nullptr);
  EXPECT_EQ(quantised->type, backend::DType::kQ4_1);
  EXPECT_EQ(quantised->rows(), 4);
  EXPECT_EQ(quantised->data.data(), first->data.data() + 64);
  EXPECT_EQ((*file)->FindTensor("third"), nullptr);
}

struct Malformed {
  const char* what;
  std::function<void(GgufBuilder&)> spoil;
  const char* subject;  // the key or tensor that the error names
  const char* reason;
};

void PrintTo(const Malformed& malformed, std::ostream* out) { *out << malformed.what; }

class MalformedGgufTest : public testing::TestWithParam<Malformed> {};

TEST_P(MalformedGgufTest, IsRefusedByFileKeyAndReason) {
  GgufBuilder builder = TinyLlama();
  GetParam().spoil(builder);
  const Bytes bytes = builder.Build();
  const absl::Status status = Parse(bytes).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status) || absl::IsUnimplemented(status)) << status;
  EXPECT_THAT(
      std::string(status.message()),
      AllOf(testing::StartsWith("tiny.gguf: "), HasSubstr(GetParam().subject), HasSubstr(GetParam().reason)));
}

constexpr uint64_t kHuge = uint64_t{1} << 63;

std::string ArrayHead(uint32_t element, uint64_t count) {
  return GgufBuilder::Bytes(element) + GgufBuilder::Bytes(count);
}

INSTANTIATE_TEST_SUITE_P(
    Header, MalformedGgufTest,
    testing::Values(
        Malformed{"magic", [](GgufBuilder& b) { b.magic = "GGML"; }, "magic", "not a GGUF file"},
        Malformed{"version 1", [](GgufBuilder& b) { b.version = 1; }, "version", "1 is not supported"},
        Malformed{"version 2", [](GgufBuilder& b) { b.version = 2; }, "version", "2 is not supported"},
        Malformed{"version 99", [](GgufBuilder& b) { b.version = 99; }, "version", "99 is not supported"},
        Malformed{"big-endian", [](GgufBuilder& b) { b.version = 3u << 24; }, "version", "not supported"},
        Malformed{"keys", [](GgufBuilder& b) { b.num_keys = kHuge; }, "key count", "cannot be in a file"},
        Malformed{"tensors", [](GgufBuilder& b) { b.num_tensors = kHuge; }, "tensor count",
                  "cannot be in a file"},
        Malformed{"more keys than the limit, in a file that is large enough",
                  [](GgufBuilder& b) {
                    b.SetString("k", std::string(1 << 21, 'x'));
                    b.num_keys = GgufFile::kMaxKeys + 1;
                  },
                  "key count", "the limit is"},
        Malformed{"more tensors than the limit, in a file that is large enough",
                  [](GgufBuilder& b) {
                    b.SetString("k", std::string(1 << 23, 'x'));
                    b.num_tensors = GgufFile::kMaxTensors + 1;
                  },
                  "tensor count", "the limit is"},
        Malformed{"one key too many", [](GgufBuilder& b) { b.num_keys = 20; }, "", ""}));

INSTANTIATE_TEST_SUITE_P(
    Keys, MalformedGgufTest,
    testing::Values(
        Malformed{"duplicate key", [](GgufBuilder& b) { b.AddTwice("general.name"); }, "general.name",
                  "duplicate"},
        Malformed{"empty key", [](GgufBuilder& b) { b.SetU32("", 1); }, "key 19", "0 bytes"},
        Malformed{"string of 2^63 bytes",
                  [](GgufBuilder& b) { b.Set("k", GgufBuilder::kString, GgufBuilder::Bytes(kHuge)); }, "k",
                  "past the end"},
        Malformed{"string of 2^64 - 1 bytes",
                  [](GgufBuilder& b) { b.Set("k", GgufBuilder::kString, GgufBuilder::Bytes(~uint64_t{0})); },
                  "k", "past the end"},
        Malformed{"array of arrays",
                  [](GgufBuilder& b) { b.Set("k", GgufBuilder::kArray, ArrayHead(GgufBuilder::kArray, 1)); },
                  "k", "array of arrays"},
        Malformed{
            "array of 2^63 numbers",
            [](GgufBuilder& b) { b.Set("k", GgufBuilder::kArray, ArrayHead(GgufBuilder::kU64, kHuge)); }, "k",
            "past the end"},
        Malformed{"array of 2^61 numbers, whose bytes wrap around",
                  [](GgufBuilder& b) {
                    b.Set("k", GgufBuilder::kArray, ArrayHead(GgufBuilder::kU64, uint64_t{1} << 61));
                  },
                  "k", "past the end"},
        Malformed{
            "array of 2^63 strings",
            [](GgufBuilder& b) { b.Set("k", GgufBuilder::kArray, ArrayHead(GgufBuilder::kString, kHuge)); },
            "k", "past the end"},
        Malformed{"array of an unknown type",
                  [](GgufBuilder& b) { b.Set("k", GgufBuilder::kArray, ArrayHead(77, 0)); }, "k",
                  "unknown value type"},
        Malformed{"unknown value type", [](GgufBuilder& b) { b.Set("k", 13, ""); }, "k",
                  "unknown value type 13"},
        Malformed{"a bool of 2", [](GgufBuilder& b) { b.Set("k", GgufBuilder::kBool, "\x02"); }, "k",
                  "neither 0 nor 1"},
        Malformed{"alignment 0", [](GgufBuilder& b) { b.SetU32("general.alignment", 0); },
                  "general.alignment", "no power of two"},
        Malformed{"alignment 3", [](GgufBuilder& b) { b.SetU32("general.alignment", 3); },
                  "general.alignment", "no power of two"},
        Malformed{"alignment 2^31", [](GgufBuilder& b) { b.SetU32("general.alignment", 1u << 31); },
                  "general.alignment", "no power of two of at most"},
        Malformed{"alignment of another type", [](GgufBuilder& b) { b.SetString("general.alignment", "32"); },
                  "general.alignment", "must be an integer"}));

INSTANTIATE_TEST_SUITE_P(
    Tensors, MalformedGgufTest,
    testing::Values(
        Malformed{"duplicate name", [](GgufBuilder& b) { b.AddTensor("token_embd.weight", {32}); },
                  "token_embd.weight", "duplicate"},
        Malformed{"empty name", [](GgufBuilder& b) { b.AddTensor("", {32}); }, "tensor 11", "0 bytes"},
        Malformed{"five dimensions",
                  [](GgufBuilder& b) {
                    b.AddTensor("t", {1, 1, 1, 1, 1});
                  },
                  "t", "5 dimensions"},
        Malformed{"no dimensions", [](GgufBuilder& b) { b.AddTensor("t", {}); }, "t", "0 dimensions"},
        Malformed{"a dimension of 0",
                  [](GgufBuilder& b) {
                    b.AddTensor("t", {32, 0});
                  },
                  "t", "dimension 1 is 0"},
        Malformed{"a negative dimension", [](GgufBuilder& b) { b.AddTensor("t", {~uint64_t{0}}); }, "t",
                  "overflows"},
        Malformed{"a product that overflows",
                  [](GgufBuilder& b) {
                    b.AddTensor("t", {uint64_t{1} << 32, uint64_t{1} << 32});
                  },
                  "t", "overflows"},
        Malformed{"bytes that overflow", [](GgufBuilder& b) { b.AddTensor("t", {uint64_t{1} << 62}); }, "t",
                  "overflow"},
        Malformed{"unknown type 999", [](GgufBuilder& b) { b.AddTensor("t", {32}).type = 999; }, "t",
                  "unknown tensor type 999"},
        Malformed{"a part of a block",
                  [](GgufBuilder& b) {
                    b.AddTensor("t", {48, 2}).type = 3;
                  },
                  "t", "whole blocks of 32"},
        Malformed{"an offset that is not aligned", [](GgufBuilder& b) { b.tensors[3].offset = 16; },
                  "blk.0.attn_q.weight", "no multiple of the alignment"},
        Malformed{"an offset past the end", [](GgufBuilder& b) { b.tensors[3].offset = 1 << 20; },
                  "blk.0.attn_q.weight", "past the end"},
        Malformed{"an offset whose end wraps around",
                  [](GgufBuilder& b) { b.tensors[3].offset = ~uint64_t{31}; }, "blk.0.attn_q.weight",
                  "past the end"},
        Malformed{"a tensor larger than its file", [](GgufBuilder& b) { b.AddTensor("t", {1 << 24}); }, "t",
                  "past the end"}));

// Cut at every byte of the first 4 KB, and at the end of the data.
TEST(GgufTest, RefusesAFileThatIsCut) {
  GgufBuilder builder = TinyLlama();
  builder.SetString("tokenizer.chat_template", std::string(3000, 't'));
  const Bytes whole = builder.Build();
  ASSERT_TRUE(Parse(whole).ok());
  ASSERT_GT(whole.size(), 8192u);
  for (size_t size = 0; size <= 4096; ++size) {
    const Bytes cut(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size));
    EXPECT_THAT(std::string(Parse(cut).status().message()), testing::StartsWith("tiny.gguf: ")) << size;
  }
  const Bytes cut(whole.begin(), whole.end() - 1);
  EXPECT_FALSE(Parse(cut).ok());
}

// Whatever single byte is changed: an answer or an error, never a fault. Views that come back can be read.
TEST(GgufTest, SurvivesAnyChangeOfItsHead) {
  const Bytes whole = TinyLlama().Build();
  std::mt19937 random(3);
  for (int round = 0; round < 20000; ++round) {
    Bytes bytes = whole;
    for (int i = 0; i <= round % 3; ++i) bytes[random() % 2048] = static_cast<std::byte>(random());
    const auto file = Parse(bytes);
    if (!file.ok()) continue;
    size_t sum = 0;
    for (const GgufTensor& tensor : (*file)->tensors()) {
      sum += static_cast<size_t>(tensor.data.front()) + static_cast<size_t>(tensor.data.back());
    }
    for (const char* key : {"tokenizer.ggml.tokens", "tokenizer.ggml.merges"}) {
      const auto strings = (*file)->GetStrings(key);
      if (!strings.ok()) continue;
      for (const std::string_view text : *strings) sum += std::count(text.begin(), text.end(), 'a');
    }
    EXPECT_LT(sum, size_t{1} << 20);
  }
}

TEST(GgufTest, NamesFromTheFileCannotForgeALogLine) {
  GgufBuilder builder = TinyLlama();
  builder.Set("evil\nforged: line" + std::string(5000, 'x'), 99, "");
  const Bytes bytes = builder.Build();
  const std::string message(Parse(bytes).status().message());
  EXPECT_EQ(message.find('\n'), std::string::npos);
  EXPECT_LT(message.size(), 300u);
}

class GgufOpenTest : public testing::Test {
 protected:
  GgufOpenTest() : path_(testing::TempDir() + "gguf_open_test.gguf") {}
  ~GgufOpenTest() override { std::filesystem::remove(path_); }

  void Write(const Bytes& bytes) {
    std::ofstream(path_, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  }

  const std::string path_;
};

TEST_F(GgufOpenTest, MapsAFile) {
  const Bytes bytes = TinyLlama().Build();
  Write(bytes);
  const auto file = GgufFile::Open(path_);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ((*file)->name(), path_);
  EXPECT_TRUE(std::equal(bytes.begin(), bytes.end(), (*file)->bytes().begin(), (*file)->bytes().end()));
}

TEST_F(GgufOpenTest, RefusesWhatIsNoFileNamingIt) {
  EXPECT_EQ(GgufFile::Open(path_).status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(GgufFile::Open(path_).status().message()), HasSubstr(path_));
  EXPECT_EQ(GgufFile::Open(testing::TempDir()).status().code(), absl::StatusCode::kInvalidArgument);
  Write({});
  EXPECT_THAT(std::string(GgufFile::Open(path_).status().message()), HasSubstr("empty"));
}

}  // namespace
}  // namespace qanat::model
