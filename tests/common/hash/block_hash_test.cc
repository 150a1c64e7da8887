#include "common/hash/block_hash.h"

#include <algorithm>
#include <cstring>
#include <fstream>
#include <random>
#include <set>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace qanat::hash {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr HashKey kKey{0x0706050403020100, 0x0f0e0d0c0b0a0908};

// What Next promises, written over bytes.
BlockHash NaiveNext(const HashKey& key, BlockHash parent, const std::vector<TokenId>& block) {
  std::string message;
  for (TokenId token : block) message.append(reinterpret_cast<const char*>(&token), sizeof(token));
  if (block.size() % 2 != 0) message.append(4, '\0');
  message.append(reinterpret_cast<const char*>(&parent), sizeof(parent));
  return HashBytes<SipHash13>(key, message);
}

std::vector<TokenId> RandomTokens(std::mt19937& random, size_t count) {
  std::vector<TokenId> tokens(count);
  for (TokenId& token : tokens) token = static_cast<TokenId>(random() % 49152);
  return tokens;
}

class HashKeyFileTest : public testing::Test {
 protected:
  ~HashKeyFileTest() override { std::remove(path_.c_str()); }

  absl::StatusOr<HashKey> Load(std::string_view content) {
    std::ofstream(path_, std::ios::binary) << content;
    return LoadHashKey(path_);
  }

  const std::string path_ =
      testing::TempDir() + "qanat_hash_key_" + testing::UnitTest::GetInstance()->current_test_info()->name();
};

TEST(BlockHasherTest, NextHashesTokensAndParentAsBytes) {
  std::mt19937 random(1);
  for (int block_size = 1; block_size <= 70; ++block_size) {
    const BlockHasher hasher(kKey, "model", block_size);
    for (int round = 0; round < 20; ++round) {
      const std::vector<TokenId> block = RandomTokens(random, static_cast<size_t>(block_size));
      const BlockHash parent = (BlockHash{random()} << 32) | random();
      ASSERT_EQ(hasher.Next(parent, block), NaiveNext(kKey, parent, block)) << block_size;
    }
  }
}

TEST(BlockHasherTest, PromptIsTheChainOfItsFullBlocks) {
  std::mt19937 random(2);
  const BlockHasher hasher(kKey, "model", 16);
  const Namespace ns = DeriveNamespace(kKey, "tenant", "");
  for (size_t length = 0; length < 100; ++length) {
    const std::vector<TokenId> tokens = RandomTokens(random, length);
    std::vector<BlockHash> expected;
    BlockHash hash = hasher.Root(ns);
    for (size_t i = 0; i + 16 <= length; i += 16) {
      hash = hasher.Next(hash, absl::MakeSpan(tokens).subspan(i, 16));
      expected.push_back(hash);
    }
    ASSERT_EQ(hasher.HashPrompt(ns, tokens), expected);
  }
}

TEST(BlockHasherTest, ChangedTokenChangesItsBlockAndAllAfterIt) {
  std::mt19937 random(3);
  const BlockHasher hasher(kKey, "model", 16);
  const std::vector<TokenId> tokens = RandomTokens(random, 160);
  const std::vector<BlockHash> before = hasher.HashPrompt({}, tokens);
  for (size_t at = 0; at < tokens.size(); ++at) {
    std::vector<TokenId> changed = tokens;
    changed[at] ^= 1;
    const std::vector<BlockHash> after = hasher.HashPrompt({}, changed);
    for (size_t block = 0; block < before.size(); ++block) {
      ASSERT_EQ(before[block] == after[block], block < at / 16) << at << " " << block;
    }
  }
}

TEST(BlockHasherTest, RootDependsOnKeyModelBlockSizeAndNamespace) {
  const Namespace ns = DeriveNamespace(kKey, "tenant", "salt");
  std::set<BlockHash> roots = {
      BlockHasher(kKey, "model", 16).Root(ns),          BlockHasher(kPublicKey, "model", 16).Root(ns),
      BlockHasher(kKey, "model2", 16).Root(ns),         BlockHasher(kKey, "model", 32).Root(ns),
      BlockHasher(kKey, "model", 16).Root(Namespace{}), BlockHasher(kKey, "", 16).Root(ns)};
  EXPECT_EQ(roots.size(), 6u);
}

// Router and worker may be of different builds: these values may never change within a protocol version.
TEST(BlockHasherTest, ValuesArePinned) {
  const BlockHasher hasher(kPublicKey, "model", 4);
  const Namespace ns = DeriveNamespace(kPublicKey, "tenant", "salt");
  EXPECT_EQ(hasher.Root(ns), 0xd911afebba4f1903);
  EXPECT_EQ(hasher.HashPrompt(ns, {1, 2, 3, 4, 5, 6, 7, 8, 9}),
            (std::vector<BlockHash>{0x65fd0d4eabdfd6d7, 0x94566e9c9418f511}));
}

TEST(NamespaceTest, FieldsDoNotRunIntoEachOther) {
  EXPECT_NE(DeriveNamespace(kKey, "a", "bc"), DeriveNamespace(kKey, "ab", "c"));
  EXPECT_NE(DeriveNamespace(kKey, "a", ""), DeriveNamespace(kKey, "", "a"));
  EXPECT_EQ(DeriveNamespace(kKey, "a", "bc"), DeriveNamespace(kKey, "a", "bc"));
  EXPECT_NE(DeriveNamespace(kKey, "a", "bc"), DeriveNamespace(kPublicKey, "a", "bc"));
}

TEST(NamespaceTest, HalvesAreIndependent) {
  const Namespace ns = DeriveNamespace(kKey, "tenant", "");
  EXPECT_NE(std::memcmp(ns.bytes.data(), ns.bytes.data() + 8, 8), 0);
}

TEST(MixTest, DigestForgetsOrderAndUndoesRemoval) {
  std::mt19937_64 random(4);
  std::vector<BlockHash> hashes(100);
  uint64_t digest = 0;
  for (BlockHash& hash : hashes) digest += Mix(hash = random());
  std::shuffle(hashes.begin(), hashes.end(), random);
  for (BlockHash hash : hashes) digest -= Mix(hash);
  EXPECT_EQ(digest, 0u);
  EXPECT_NE(Mix(0), 0u);
}

// Sums of bare hashes would not tell {1, 4} from {2, 3}.
TEST(MixTest, TellsSetsOfEqualSumApart) { EXPECT_NE(Mix(1) + Mix(4), Mix(2) + Mix(3)); }

TEST(HashKeyTest, PublicKeySpellsItsName) {
  const std::string_view name = "qanat block hash";
  EXPECT_EQ(std::memcmp(&kPublicKey.k0, name.data(), 8), 0);
  EXPECT_EQ(std::memcmp(&kPublicKey.k1, name.data() + 8, 8), 0);
}

TEST_F(HashKeyFileTest, ReadsHexAndRawBytes) {
  EXPECT_EQ(*Load("000102030405060708090a0b0c0d0e0f"), kKey);
  EXPECT_EQ(*Load("  000102030405060708090A0B0C0D0E0F\r\n"), kKey);
  EXPECT_EQ(*Load("qanat block hash"), kPublicKey);
  std::string raw(16, '\0');
  for (size_t i = 0; i < raw.size(); ++i) raw[i] = static_cast<char>(i);
  EXPECT_EQ(*Load(raw), kKey);
}

TEST_F(HashKeyFileTest, RefusesAnythingElseWithoutShowingIt) {
  for (const std::string& content :
       {std::string(), std::string("secret"), std::string(31, 'a'), std::string(33, 'a'),
        std::string(32, 'g'), std::string(17, '\1'), std::string(100000, 'a'), "0x" + std::string(30, 'a'),
        "0001020304050607" + std::string(" ") + "08090a0b0c0d0e0"}) {
    const absl::Status status = Load(content).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << content.size();
    EXPECT_THAT(std::string(status.message()), HasSubstr(path_));
    EXPECT_THAT(std::string(status.message()), Not(HasSubstr("secret")));
  }
}

TEST_F(HashKeyFileTest, MissingFileIsNamed) {
  const absl::Status status = LoadHashKey(path_).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()), HasSubstr(path_));
}

TEST_F(HashKeyFileTest, FolderIsNoKey) { EXPECT_FALSE(LoadHashKey(testing::TempDir()).ok()); }

}  // namespace
}  // namespace qanat::hash
