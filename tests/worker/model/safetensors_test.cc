#include "worker/model/weights/safetensors.h"

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/error.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/fakes/safetensors_bytes.h"
#include "tests/fakes/temporary_file.h"

namespace qanat::model {
namespace {

using fakes::SafeTensorsBytes;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;

using Bytes = std::vector<std::byte>;

constexpr char kTwo[] = R"({"__metadata__":{"format":"pt","note":"\u00e9\"x\""},)"
                        R"("b":{"dtype":"BF16","shape":[2,3],"data_offsets":[8,20]},)"
                        R"("a":{"data_offsets":[0,8],"shape":[],"dtype":"I64"}})";

absl::Status StatusOf(const Bytes& bytes) { return SafeTensorsFile::Parse("m.safetensors", bytes).status(); }
absl::Status StatusOf(std::string_view header, size_t data_bytes = 0) {
  return StatusOf(SafeTensorsBytes(header, data_bytes));
}
std::string Tensor(std::string_view dtype, std::string_view shape, uint64_t begin, uint64_t end) {
  return absl::StrCat("{\"t\":{\"dtype\":\"", std::string(dtype), "\",\"shape\":", std::string(shape),
                      ",\"data_offsets\":[", begin, ",", end, "]}}");
}

TEST(SafeTensorsTest, FindsTensorsWhereTheFileHasThem) {
  const Bytes bytes = SafeTensorsBytes(kTwo, 20);
  const auto file = SafeTensorsFile::Parse("m.safetensors", bytes);
  ASSERT_TRUE(file.ok()) << file.status();
  ASSERT_EQ((*file)->tensors().size(), 2u);
  const SafeTensor& a = (*file)->tensors()[0];
  EXPECT_EQ(a.name, "a") << "in the order of their data";
  EXPECT_EQ(a.type->name, "I64");
  EXPECT_THAT(a.shape, IsEmpty());
  EXPECT_EQ(a.data.data(), bytes.data() + bytes.size() - 20);
  EXPECT_EQ(a.data.size(), 8u);
  const SafeTensor* b = (*file)->FindTensor("b");
  ASSERT_NE(b, nullptr);
  EXPECT_THAT(b->shape, ElementsAre(2, 3));
  EXPECT_EQ(b->data.size(), 12u);
  EXPECT_EQ(b->data.front(), std::byte{8});
  EXPECT_EQ((*file)->FindTensor("c"), nullptr);
  EXPECT_THAT((*file)->metadata(), ElementsAre(Pair("format", "pt"), Pair("note", "\u00e9\"x\"")));
}

TEST(SafeTensorsTest, AFileMayBeEmptyOrPadded) {
  EXPECT_TRUE(StatusOf("{}").ok());
  EXPECT_TRUE(StatusOf("{}\r \t\n").ok());
  EXPECT_TRUE(StatusOf(R"({"__metadata__":{}}      )").ok());
  EXPECT_TRUE(
      StatusOf("{ \"t\" : {\"shape\" : [ 1 ] ,\n\"dtype\":\"U8\", \"data_offsets\":[0,1] } }", 1).ok());
}

TEST(SafeTensorsTest, TensorsWithoutElementsLieBetweenOthers) {
  const Bytes bytes = SafeTensorsBytes(R"({"x":{"dtype":"F32","shape":[2,0],"data_offsets":[4,4]},)"
                                       R"("y":{"dtype":"F32","shape":[1],"data_offsets":[4,8]},)"
                                       R"("w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})",
                                       8);
  const auto file = SafeTensorsFile::Parse("m.safetensors", bytes);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ((*file)->FindTensor("x")->data.size(), 0u);
  EXPECT_EQ((*file)->FindTensor("y")->data.size(), 4u);
}

TEST(SafeTensorsTest, KnowsEveryTypeAndItsSize) {
  const std::pair<const char*, int> kBits[] = {
      {"BOOL", 8},        {"U8", 8},          {"I8", 8},      {"F8_E4M3", 8}, {"F8_E5M2", 8}, {"F8_E8M0", 8},
      {"F8_E4M3FNUZ", 8}, {"F8_E5M2FNUZ", 8}, {"I16", 16},    {"U16", 16},    {"F16", 16},    {"BF16", 16},
      {"I32", 32},        {"U32", 32},        {"F32", 32},    {"F64", 64},    {"I64", 64},    {"U64", 64},
      {"C64", 64},        {"F4", 4},          {"F6_E2M3", 6}, {"F6_E3M2", 6}};
  for (const auto& [name, bits] : kBits) {
    const auto bytes = static_cast<uint64_t>(bits);
    EXPECT_TRUE(StatusOf(Tensor(name, "[4,2]", 0, bytes), bytes).ok()) << name;
    EXPECT_FALSE(StatusOf(Tensor(name, "[4,2]", 0, bytes - 1), bytes - 1).ok()) << name;
    EXPECT_FALSE(StatusOf(Tensor(name, "[4,2]", 0, bytes + 1), bytes + 1).ok()) << name;
  }
}

struct Wrong {
  const char* what;
  std::string header;
  size_t data_bytes;
  const char* subject;
  const char* reason;
};

void PrintTo(const Wrong& wrong, std::ostream* out) { *out << wrong.what; }

class WrongSafeTensorsTest : public testing::TestWithParam<Wrong> {};

TEST_P(WrongSafeTensorsTest, IsRefusedByFileSubjectAndReason) {
  const absl::Status status = StatusOf(GetParam().header, GetParam().data_bytes);
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_EQ(FieldOf(status), GetParam().subject);
  EXPECT_THAT(std::string(status.message()),
              AllOf(testing::StartsWith(absl::StrCat("m.safetensors: ", GetParam().subject, ": ")),
                    HasSubstr(GetParam().reason)));
}

INSTANTIATE_TEST_SUITE_P(
    Json, WrongSafeTensorsTest,
    testing::Values(
        Wrong{"empty", "", 0, "header", "does not begin"},
        Wrong{"an array", "[]", 0, "header", "begin with '{'"},
        Wrong{"a blank first", " {}", 0, "header", "begin with '{'"},
        Wrong{"a byte order mark", "\xEF\xBB\xBF{}", 0, "header", "begin with '{'"},
        Wrong{"cut", "{", 0, "header", "not JSON"}, Wrong{"two objects", "{}{}", 0, "header", "not JSON"},
        Wrong{"words behind", "{} x", 0, "header", "not JSON"},
        Wrong{"a comment", "{/* */}", 0, "header", "not JSON"},
        Wrong{"a comma", "{,}", 0, "header", "not JSON"},
        Wrong{"a zero behind", std::string("{}\0", 3), 0, "header", "zero byte"},
        Wrong{"no UTF-8", "{\"\xff\":1}", 0, "header", "not JSON in UTF-8"},
        Wrong{"half a surrogate", R"({"\ud800":1})", 0, "header", "not JSON"},
        Wrong{"no object", R"({"t":[]})", 0, "t", "an array where an object must be"},
        Wrong{"a number as entry", R"({"t":1})", 0, "t", "a number where an object must be"},
        Wrong{"null as entry", R"({"t":null})", 0, "t", "null where an object must be"},
        Wrong{"deep objects", R"({"t":{"shape":{"t":{}}}})", 0, "t", "an object where an array must be"},
        Wrong{"deep arrays", R"({"t":{"shape":[[[]]]}})", 0, "t", "an array where a number must be"},
        Wrong{"metadata that is no text", R"({"__metadata__":{"a":1}})", 0, "__metadata__",
              "a number where a text must be"},
        Wrong{"metadata in metadata", R"({"__metadata__":{"a":{}}})", 0, "__metadata__",
              "an object where a text must be"},
        Wrong{"metadata null", R"({"__metadata__":null})", 0, "__metadata__", "null where"},
        Wrong{"metadata twice", R"({"__metadata__":{},"__metadata__":{}})", 0, "__metadata__", "comes twice"},
        Wrong{"a text twice", R"({"__metadata__":{"a":"","b":"","\u0061":""}})", 0, "__metadata__",
              "'a' comes twice"}));

INSTANTIATE_TEST_SUITE_P(
    Tensors, WrongSafeTensorsTest,
    testing::Values(
        Wrong{"no fields", R"({"t":{}})", 0, "t", "needs dtype, shape and data_offsets"},
        Wrong{"no dtype", R"({"t":{"shape":[],"data_offsets":[0,0]}})", 0, "t", "needs dtype"},
        Wrong{"an unknown field", R"({"t":{"shape":[],"strides":[]}})", 0, "t", "unknown field 'strides'"},
        Wrong{"a field twice", R"({"t":{"shape":[],"shape":[]}})", 0, "t", "shape comes twice"},
        Wrong{"a tensor twice",
              R"({"t":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
              R"("t":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})",
              2, "t", "comes twice"},
        Wrong{"an unknown dtype", Tensor("F33", "[]", 0, 4), 4, "t", "unknown dtype 'F33'"},
        Wrong{"a dtype in small letters", Tensor("f32", "[]", 0, 4), 4, "t", "unknown dtype 'f32'"},
        Wrong{"a dtype that is no text", R"({"t":{"dtype":3}})", 0, "t", "a number where a string must be"},
        Wrong{"a negative dimension", Tensor("U8", "[-1]", 0, 1), 1, "t", "a negative number"},
        Wrong{"a dimension -0", Tensor("U8", "[-0]", 0, 0), 0, "t", "a negative number"},
        Wrong{"a fraction", Tensor("U8", "[1.0]", 0, 1), 1, "t", "no 64-bit integer"},
        Wrong{"a dimension of 2^64", Tensor("U8", "[18446744073709551616]", 0, 0), 0, "t",
              "no 64-bit integer"},
        Wrong{"a dimension as text", Tensor("U8", "[\"1\"]", 0, 1), 1, "t",
              "a string where a number must be"},
        Wrong{"a product that overflows", Tensor("I32", "[2,18446744073709551614]", 0, 16), 16, "t",
              "overflows"},
        Wrong{"bits that overflow", Tensor("I32", "[2,9223372036854775807]", 0, 16), 16, "t", "overflows"},
        Wrong{"an overflow that a 0 hides", Tensor("U8", "[4294967296,4294967296,0]", 0, 0), 0, "t",
              "overflows"},
        Wrong{"half a byte", Tensor("F4", "[3]", 0, 1), 1, "t", "ends inside a byte"},
        Wrong{"one offset", R"({"t":{"dtype":"U8","shape":[],"data_offsets":[0]}})", 1, "t", "two numbers"},
        Wrong{"three offsets", R"({"t":{"dtype":"U8","shape":[],"data_offsets":[0,1,2]}})", 1, "t",
              "two numbers"},
        Wrong{"offsets backwards", Tensor("U8", "[0]", 1, 0), 0, "t", "begins at 1 and ends at 0"},
        Wrong{"an offset past the end", Tensor("U8", "[9]", 0, 9), 8, "t", "ends at byte 9 of 8"},
        Wrong{"a huge offset", Tensor("U8", "[1]", 18446744073709551614u, 18446744073709551615u), 8, "t",
              "bytes of data"},
        Wrong{"a hole at the beginning", Tensor("U8", "[1]", 1, 2), 2, "t", "no holes"},
        Wrong{"a hole",
              R"({"s":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
              R"("t":{"dtype":"U8","shape":[1],"data_offsets":[2,3]}})",
              3, "t", "begins at byte 2, but what is before it ends at 1"},
        Wrong{"an overlap",
              R"({"s":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},)"
              R"("t":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}})",
              3, "t", "begins at byte 1, but what is before it ends at 2"},
        Wrong{"fewer bytes than the shape", Tensor("F32", "[2]", 0, 4), 4, "t", "has 4 bytes"},
        Wrong{"bytes at the end", Tensor("U8", "[1]", 0, 1), 3, "data", "2 bytes at the end belong"},
        Wrong{"data without tensors", "{}", 1, "data", "1 bytes at the end belong"}));

TEST(SafeTensorsTest, RefusesALengthThatIsNoHeaders) {
  EXPECT_THAT(std::string(StatusOf(SafeTensorsBytes("{}", 0, 3)).message()), HasSubstr("past the end"));
  EXPECT_THAT(std::string(StatusOf(SafeTensorsBytes("{}", 0, 1)).message()), HasSubstr("not JSON"));
  EXPECT_THAT(std::string(StatusOf(SafeTensorsBytes("{}", 0, 100'000'001)).message()), HasSubstr("limit"));
  EXPECT_THAT(std::string(StatusOf(SafeTensorsBytes("{}", 0, ~uint64_t{0})).message()), HasSubstr("limit"));
  EXPECT_THAT(std::string(StatusOf(SafeTensorsBytes("{}", 0, ~uint64_t{7})).message()), HasSubstr("limit"));
}

TEST(SafeTensorsTest, RefusesAFileThatIsCut) {
  const Bytes whole = SafeTensorsBytes(kTwo, 20);
  for (size_t size = 0; size < whole.size(); ++size) {
    const Bytes cut(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size));
    EXPECT_THAT(std::string(StatusOf(cut).message()), testing::StartsWith("m.safetensors: ")) << size;
  }
}

// Headers whose parts fit, but whose number does not.
TEST(SafeTensorsTest, BoundsWhatAHeaderCanMakeItKeep) {
  const auto many = [](uint64_t count, const auto& each) {
    std::string list;
    for (uint64_t i = 0; i < count; ++i) absl::StrAppend(&list, i == 0 ? "" : ",", each(i));
    return list;
  };
  const auto dim = [](uint64_t) { return "1"; };
  EXPECT_TRUE(StatusOf(Tensor("U8", "[" + many(32, dim) + "]", 0, 1), 1).ok());
  EXPECT_THAT(std::string(StatusOf(Tensor("U8", "[" + many(33, dim) + "]", 0, 1), 1).message()),
              HasSubstr("more than 32 dimensions"));
  const std::string tensors = many(SafeTensorsFile::kMaxTensors + 1, [](uint64_t i) {
    return absl::StrCat("\"", i, "\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}");
  });
  EXPECT_THAT(std::string(StatusOf("{" + tensors + "}").message()), HasSubstr("more than 65536 tensors"));
  const std::string texts = many(SafeTensorsFile::kMaxTexts + 1, [](uint64_t) { return R"("":"")"; });
  EXPECT_THAT(std::string(StatusOf(R"({"__metadata__":{)" + texts + "}}").message()),
              HasSubstr("more than 65536 texts"));
  const std::string long_text = "{\"__metadata__\":{\"a\":\"" + std::string(5 << 20, 'x') + "\"}}";
  EXPECT_THAT(std::string(StatusOf(long_text).message()), HasSubstr("a string of more than"));
  const std::string long_name = "{\"" + many(1 << 22, [](uint64_t) { return "\\\""; });
  EXPECT_THAT(std::string(StatusOf(long_name).message()), HasSubstr("a string of more than"));
  const std::string many_bytes =
      many(17, [](uint64_t i) { return absl::StrCat("\"", i, "\":\"", std::string(1 << 20, 'x'), "\""); });
  EXPECT_THAT(std::string(StatusOf(R"({"__metadata__":{)" + many_bytes + "}}").message()),
              HasSubstr("bytes in all"));
}

// Whatever bytes are changed: an answer or an error, never a fault; data that comes back can be read and
// covers the file.
TEST(SafeTensorsTest, SurvivesAnyChangeOfItsHeader) {
  const Bytes whole = SafeTensorsBytes(kTwo, 20);
  std::mt19937 random(5);
  int read = 0;
  for (int round = 0; round < 30000; ++round) {
    Bytes bytes = whole;
    for (int i = 0; i <= round % 3; ++i)
      bytes[random() % (bytes.size() - 20)] = static_cast<std::byte>(random() % 128);
    const auto file = SafeTensorsFile::Parse("m.safetensors", bytes);
    if (!file.ok()) continue;
    ++read;
    size_t sum = 0;
    for (const SafeTensor& tensor : (*file)->tensors()) sum += tensor.data.size();
    EXPECT_EQ(sum, 20u);
  }
  EXPECT_GT(read, 100) << "names and texts may be any";
}

TEST(SafeTensorsTest, NamesFromTheFileCannotForgeALogLine) {
  const std::string name = "evil\\nforged: line" + std::string(5000, 'x');
  const std::string message(StatusOf("{\"" + name + "\":[]}").message());
  EXPECT_EQ(message.find('\n'), std::string::npos);
  EXPECT_LT(message.size(), 300u);
}

TEST(SafeTensorsTest, MapsAFile) {
  const Bytes bytes = SafeTensorsBytes(kTwo, 20);
  const fakes::TemporaryFile file(bytes);
  const auto opened = SafeTensorsFile::Open(file.path());
  ASSERT_TRUE(opened.ok()) << opened.status();
  EXPECT_EQ((*opened)->name(), file.path());
  const absl::Span<const std::byte> data = (*opened)->FindTensor("b")->data;
  EXPECT_TRUE(std::equal(data.begin(), data.end(), bytes.end() - 12, bytes.end()));
  EXPECT_EQ(SafeTensorsFile::Open(file.path() + ".absent").status().code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace qanat::model
