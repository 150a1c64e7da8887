// KvManager against a cache of whole prefixes with a clock, over random histories that share prefixes.

#include <algorithm>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <vector>

#include "gtest/gtest.h"
#include "worker/kv/kv_manager.h"

namespace qanat::kv {
namespace {

using Tokens = std::vector<TokenId>;

constexpr int32_t kBlockSize = 2;

// A prefix is its tokens. Blocks have no ids: only their number counts.
class NaiveCache {
 public:
  explicit NaiveCache(int32_t num_blocks) : num_free_(num_blocks) {}

  int32_t HitBlocks(const Tokens& tokens) const {
    int32_t hits = 0;
    while ((hits + 1) * kBlockSize < static_cast<int32_t>(tokens.size()) &&
           resident_.contains(Prefix(tokens, hits + 1))) {
      ++hits;
    }
    return hits;
  }
  void Reference(const Tokens& tokens, int32_t block) { ++resident_.at(Prefix(tokens, block + 1)).count; }
  void Dereference(const Tokens& tokens, int32_t block) {
    Resident& resident = resident_.at(Prefix(tokens, block + 1));
    if (--resident.count == 0) resident.released = ++now_;
  }
  // The sequence's own block becomes resident, or it adopts the resident one and gives its own back.
  void Publish(const Tokens& tokens, int32_t block) {
    const auto [it, inserted] = resident_.try_emplace(Prefix(tokens, block + 1));
    ++it->second.count;
    if (!inserted) ++num_free_;
  }
  void GiveBack() { ++num_free_; }
  int32_t num_unreferenced() const {
    int32_t n = num_free_;
    for (const auto& [prefix, resident] : resident_) n += resident.count == 0 ? 1 : 0;
    return n;
  }
  void Take() {
    if (num_free_ > 0) {
      --num_free_;
      return;
    }
    auto oldest = resident_.end();
    for (auto it = resident_.begin(); it != resident_.end(); ++it) {
      if (it->second.count > 0) continue;
      if (oldest == resident_.end() || it->second.released < oldest->second.released) oldest = it;
    }
    ASSERT_NE(oldest, resident_.end());
    resident_.erase(oldest);
  }
  std::vector<Tokens> ResidentPrefixes() const {
    std::vector<Tokens> prefixes;
    for (const auto& [prefix, resident] : resident_) prefixes.push_back(prefix);
    return prefixes;
  }
  int32_t num_resident() const { return static_cast<int32_t>(resident_.size()); }
  int32_t num_free() const { return num_free_; }

 private:
  struct Resident {
    int count = 0;
    int64_t released = 0;
  };
  static Tokens Prefix(const Tokens& tokens, int32_t blocks) {
    return Tokens(tokens.begin(), tokens.begin() + blocks * kBlockSize);
  }

  std::map<Tokens, Resident> resident_;
  int32_t num_free_;
  int64_t now_ = 0;
};

// One history on both sides.
struct Pair {
  Tokens tokens;
  BlockTable table;
  int32_t blocks = 0;
  int32_t published = 0;
};

class TwinTest : public testing::TestWithParam<int> {
 protected:
  static constexpr int32_t kBlocks = 14;

  void Start() {
    Tokens tokens(1 + random_() % 12);
    for (TokenId& token : tokens) token = static_cast<TokenId>(random_() % 2);
    Pair pair{tokens, kv_.NewTable(hash::Namespace{}), 0, 0};
    const PrefixMatch match = kv_.Match(pair.table, tokens);
    ASSERT_EQ(static_cast<int32_t>(match.blocks.size()), twin_.HitBlocks(tokens));
    kv_.Attach(pair.table, match);
    for (int32_t i = 0; i < pair.table.size(); ++i) twin_.Reference(tokens, i);
    pair.blocks = pair.published = pair.table.size();
    live_.push_back(std::make_unique<Pair>(std::move(pair)));
  }
  void Grow(Pair& pair) {
    pair.tokens.push_back(static_cast<TokenId>(random_() % 2));
    const int32_t size = static_cast<int32_t>(pair.tokens.size());
    const int32_t missing = kv_.BlocksFor(size) - pair.blocks;
    const bool fits = missing <= twin_.num_unreferenced();
    ASSERT_EQ(kv_.Reserve(pair.table, size), fits);
    if (!fits) {
      pair.tokens.pop_back();
      return;
    }
    for (int32_t i = 0; i < missing; ++i) twin_.Take();
    pair.blocks += missing;
    kv_.Commit(pair.table, pair.tokens);
    LearnParents(pair.tokens);
    for (; pair.published < size / kBlockSize; ++pair.published) twin_.Publish(pair.tokens, pair.published);
  }
  void End(size_t i) {
    Pair& pair = *live_[i];
    for (int32_t block = pair.blocks - 1; block >= 0; --block) {
      if (block < pair.published) {
        twin_.Dereference(pair.tokens, block);
      } else {
        twin_.GiveBack();
      }
    }
    kv_.Release(pair.table);
    live_.erase(live_.begin() + static_cast<int64_t>(i));
  }
  void Compare() {
    std::vector<const BlockTable*> tables;
    for (const auto& pair : live_) {
      tables.push_back(&pair->table);
      kv_.CheckTable(pair->table, pair->tokens);
      ASSERT_EQ(pair->table.num_published(), pair->published);
    }
    kv_.CheckInvariants(tables);
    ASSERT_EQ(kv_.num_resident(), twin_.num_resident());
    ASSERT_EQ(kv_.pool().num_free(), twin_.num_free());
    ASSERT_EQ(kv_.pool().num_unreferenced(), twin_.num_unreferenced());
  }

  // Follows the cache by its deltas: whatever is resident is so upon its parent, after every hash of them.
  void Follow() {
    const hash::SetDelta delta = kv_.TakeDelta();
    largest_delta_ = std::max(largest_delta_, delta.size());
    for (const hash::BlockHash stored : delta.stored) {
      ASSERT_TRUE(followed_.insert(stored).second);
      ASSERT_TRUE(parents_.at(stored) == root_ || followed_.contains(parents_.at(stored)));
    }
    for (const hash::BlockHash removed : delta.removed) {
      ASSERT_EQ(followed_.erase(removed), 1u);
      for (const hash::BlockHash left : followed_) ASSERT_NE(parents_.at(left), removed);
    }
    std::set<hash::BlockHash> resident;
    for (const Tokens& prefix : twin_.ResidentPrefixes()) {
      resident.insert(hasher_.HashPrompt(hash::Namespace{}, prefix).back());
    }
    ASSERT_EQ(followed_, resident);
  }
  void LearnParents(const Tokens& tokens) {
    hash::BlockHash parent = root_;
    for (const hash::BlockHash hash : hasher_.HashPrompt(hash::Namespace{}, tokens)) {
      parents_[hash] = std::exchange(parent, hash);
    }
  }

  std::mt19937 random_{static_cast<uint32_t>(GetParam())};
  hash::BlockHasher hasher_{hash::kPublicKey, "model", kBlockSize};
  KvManager kv_{kBlocks, true, hasher_};
  NaiveCache twin_{kBlocks};
  std::vector<std::unique_ptr<Pair>> live_;
  const hash::BlockHash root_ = hasher_.Root(hash::Namespace{});
  std::map<hash::BlockHash, hash::BlockHash> parents_;
  std::set<hash::BlockHash> followed_;
  size_t largest_delta_ = 0;
};

TEST_P(TwinTest, AgreesOverRandomHistories) {
  for (int step = 0; step < 3000; ++step) {
    const uint32_t choice = random_() % 8;
    if (live_.empty() || choice == 0) {
      Start();
    } else if (choice == 1 || live_.size() > 5) {
      End(random_() % live_.size());
    } else {
      Grow(*live_[random_() % live_.size()]);
    }
    Compare();
    if (random_() % 6 == 0) Follow();
    if (HasFatalFailure()) return;
  }
  Follow();
  EXPECT_GT(largest_delta_, 8u);
  EXPECT_GT(kv_.num_evictions(), 100) << "too tame to prove anything";
}

INSTANTIATE_TEST_SUITE_P(Seeds, TwinTest, testing::Range(0, 10));

}  // namespace
}  // namespace qanat::kv
