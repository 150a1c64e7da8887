#include "worker/engine/engine_options.h"

#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "common/base/error.h"
#include "gtest/gtest.h"
#include "tests/worker/engine/engine_fixture.h"

namespace qanat::engine {
namespace {

TEST(EngineOptionsTest, SensibleOnesAreValid) {
  EXPECT_TRUE(SmallOptions().Validate().ok());
  EngineOptions defaults;
  defaults.context_length = 8192;
  defaults.num_blocks = 1000;
  EXPECT_TRUE(defaults.Validate().ok()) << defaults.Validate();
}

TEST(EngineOptionsTest, NamesTheFlagThatIsOutOfRange) {
  constexpr int32_t kLargest = std::numeric_limits<int32_t>::max();
  const std::vector<std::pair<std::string, std::function<void(EngineOptions&)>>> cases = {
      {"--context-length", [](EngineOptions& o) { o.context_length = 1; }},
      {"--block-size", [](EngineOptions& o) { o.block_size = 0; }},
      {"--kv-blocks", [](EngineOptions& o) { o.num_blocks = 0; }},
      {"--max-seqs", [](EngineOptions& o) { o.max_seqs = 0; }},
      {"--max-batch-tokens", [](EngineOptions& o) { o.max_batch_tokens = o.max_seqs - 1; }},
      {"--chunk-tokens", [](EngineOptions& o) { o.chunk_tokens = 0; }},
      {"--queue-requests", [](EngineOptions& o) { o.queue_requests = 0; }},
      {"--queue-tokens", [](EngineOptions& o) { o.queue_tokens = o.context_length - 1; }},
      {"--kv", [](EngineOptions& o) { o.kv_layout = kv::Layout::kContiguous; }},
      {"--block-size", [](EngineOptions& o) { o.block_size = kMaxBlockSize + 1; }},
      {"--kv-blocks", [](EngineOptions& o) { o.num_blocks = kLargest; }},
      {"--kv-blocks",
       [](EngineOptions& o) {
         o.block_size = kMaxBlockSize;
         o.num_blocks = kMaxPoolTokens / kMaxBlockSize + 1;
       }},
      {"--max-seqs", [](EngineOptions& o) { o.max_seqs = o.max_batch_tokens = kLargest; }},
      {"--max-batch-tokens", [](EngineOptions& o) { o.max_batch_tokens = kLargest; }},
      {"--queue-requests", [](EngineOptions& o) { o.queue_requests = kLargest; }},
      {"--class-defaults", [](EngineOptions& o) { o.class_defaults[1] = Duration(-1); }},
  };
  for (const auto& [flag, change] : cases) {
    EngineOptions options = SmallOptions();
    change(options);
    const absl::Status status = options.Validate();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << flag;
    EXPECT_EQ(FieldOf(status), flag);
  }
}

}  // namespace
}  // namespace qanat::engine
