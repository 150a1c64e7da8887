// A reader who takes nothing costs at most 256 KiB and nobody's pace, whatever he asked for.
#include <malloc.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "gtest/gtest.h"
#include "tests/laws/law_rig.h"

namespace qanat::service {
namespace {

constexpr int kSleepers = 100;
// 256 KiB, less gRPC's own copy of the write under way: on the wire scores are a tenth of what they are in
// memory.
constexpr size_t kBytesEach = (256 - 16) << 10;

struct Shape {
  const char* name;
  int32_t n;
  int32_t logprobs;         // -1: none
  int32_t prompt_logprobs;  // the same
  int32_t prompt_tokens;
};

void PrintTo(const Shape& shape, std::ostream* out) { *out << shape.name; }

class SlowReaderLawsTest : public ::testing::TestWithParam<Shape> {
 protected:
  SlowReaderLawsTest() : rig_(Roomy()) {}

  static LawOptions Roomy() {
    LawOptions options;
    options.context_length = 8192;
    options.num_blocks = 4096;
    options.max_seqs = 16;
    options.queue_requests = 2 * kSleepers;
    options.queue_tokens = 1 << 20;
    return options;
  }
  v1::GenerateRequest Request() const {
    const Shape& shape = GetParam();
    v1::GenerateRequest request;
    request.mutable_token_ids()->mutable_ids()->Resize(shape.prompt_tokens, 3);
    request.mutable_sampling()->set_seed(7);
    request.mutable_sampling()->set_n(shape.n);
    request.mutable_stopping()->set_ignore_eos(true);
    request.mutable_stopping()->set_max_tokens(4000);
    request.mutable_output()->set_token_ids(true);
    if (shape.logprobs >= 0) request.mutable_output()->set_logprobs(shape.logprobs);
    if (shape.prompt_logprobs >= 0) request.mutable_output()->set_prompt_logprobs(shape.prompt_logprobs);
    return request;
  }
  // As for a call whose first write is never done: one message is under way, and news are worked up.
  void Hear(LawCall& call) {
    if (call.heard.messages.empty()) {
      rig_.Read(call);
    } else {
      call.generation->Advance();
    }
  }
  // Steps until it has ended.
  static int StepsOf(LawRig& rig, const v1::GenerateRequest& request, Heard& heard) {
    const auto call = rig.Start(request);
    int steps = 0;
    for (; !call->ended; ++steps) {
      rig.Step();
      rig.ReadAll(*call);
    }
    heard = call->heard;
    return steps;
  }

  LawRig rig_;
};

TEST_P(SlowReaderLawsTest, CostsBoundedMemoryAndNobodysPace) {
  const size_t before = mallinfo2().uordblks;
  std::vector<std::unique_ptr<LawCall>> sleepers;
  for (int i = 0; i < kSleepers; ++i) sleepers.push_back(rig_.Start(Request()));
  while (rig_.Step()) {
    for (const auto& sleeper : sleepers) Hear(*sleeper);
  }
  const engine::EngineSnapshot asleep = rig_.engine->Snapshot();
  EXPECT_EQ(asleep.paused, kSleepers * GetParam().n) << "each is paused, and none is cancelled yet";
  EXPECT_EQ(asleep.running + asleep.waiting + asleep.referenced_blocks, 0);
  const size_t each = (mallinfo2().uordblks - before) / kSleepers;
  RecordProperty("bytes_each", static_cast<int>(each));
  EXPECT_LE(each, kBytesEach);

  v1::GenerateRequest neighbour = Request();
  neighbour.mutable_stopping()->set_max_tokens(60);
  neighbour.mutable_token_ids()->set_ids(0, 5);  // shares no block with them
  LawRig fresh(Roomy());
  Heard beside, alone;
  EXPECT_EQ(StepsOf(rig_, neighbour, beside), StepsOf(fresh, neighbour, alone));
  for (int32_t choice = 0; choice < GetParam().n; ++choice) {
    EXPECT_EQ(beside.text(choice), alone.text(choice));
  }
  for (const auto& sleeper : sleepers) {
    sleeper->generation->Abort(engine::EndReason::kCancelled, CallerLeft());
  }
  rig_.Step();
  for (const auto& sleeper : sleepers) rig_.ReadAll(*sleeper);
  EXPECT_TRUE(rig_.IsIdle());
}

INSTANTIATE_TEST_SUITE_P(Shapes, SlowReaderLawsTest,
                         testing::Values(Shape{"ChosenTokensScored", 1, 0, -1, 20},
                                         Shape{"AlternativesScored", 1, 20, -1, 20},
                                         Shape{"PromptScored", 1, 20, 20, 900},
                                         Shape{"SixteenChoices", 16, 20, 20, 40}),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace qanat::service
