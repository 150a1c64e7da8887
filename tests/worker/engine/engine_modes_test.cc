// The ways of old beside the default: who runs when, what is held, and that no answer changes.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/worker/engine/engine_fixture.h"

namespace qanat::engine {
namespace {

EngineOptions Options(Batching batching, kv::Layout layout = kv::Layout::kContiguous) {
  EngineOptions options = SmallOptions();
  options.batching = batching;
  options.kv_layout = layout;
  options.prefix_cache = false;
  options.speculation = false;
  options.max_seqs = 4;
  return options;
}

// How many rows of the last step were real, and how many padding.
struct Rows {
  int32_t real = 0;
  int32_t padding = 0;
  bool operator==(const Rows&) const = default;
};

class Rig : public EngineRig {
 public:
  explicit Rig(const EngineOptions& options) : EngineRig(options) {
    runner.set_on_launch([this](const ModelBatch& batch) {
      rows = {};
      for (const BatchSequence& row : batch.sequences) ++(row.id == kPaddingId ? rows.padding : rows.real);
    });
  }
  Rows StepRows() {
    EXPECT_TRUE(Step());
    return rows;
  }
  Rows rows;
};

TEST(EngineModesTest, AStaticBatchLetsNobodyInBeforeAllHaveEnded) {
  for (const Batching batching : {Batching::kStatic, Batching::kStaticCompacted}) {
    Rig rig(Options(batching));
    const bool padded = batching == Batching::kStatic;
    for (int i = 0; i < 6; ++i) rig.Submit(Rig::MakeRequest(Rig::Prompt(3, 10 * i + 1), i == 3 ? 4 : 2));
    EXPECT_EQ(rig.StepRows(), (Rows{4, 0})) << "as many as there are seats";
    EXPECT_EQ(rig.StepRows(), (Rows{4, 0}));
    for (int step = 2; step < 4; ++step) EXPECT_EQ(rig.StepRows(), (Rows{1, padded ? 3 : 0}));
    EXPECT_EQ(rig.engine->Snapshot().waiting, 2);
    EXPECT_EQ(rig.StepRows(), (Rows{2, 0})) << "the next batch";
    rig.RunAll();
  }
}

TEST(EngineModesTest, ABatchWhosePromptsAreMoreThanAStepTakesIsOneBatch) {
  EngineOptions options = Options(Batching::kStaticCompacted);
  options.max_batch_tokens = 16;
  Rig rig(options);
  for (int i = 0; i < 5; ++i) rig.Submit(Rig::MakeRequest(Rig::Prompt(14, 100 * i + 1), 20));
  int steps = 0;
  while (rig.engine->Snapshot().running < 4 && ++steps < 10) rig.Step();
  EXPECT_EQ(rig.engine->Snapshot().running, 4);
  EXPECT_EQ(steps, 3);
  rig.RunAll();
}

TEST(EngineModesTest, WhoComesLateWaitsThoughSeatsAreFree) {
  Rig rig(Options(Batching::kStatic));
  rig.Submit(Rig::MakeRequest(Rig::Prompt(3), 10));
  rig.Step();
  rig.Step();
  rig.Submit(Rig::MakeRequest(Rig::Prompt(3, 50), 1));
  for (int step = 2; step < 10; ++step) EXPECT_EQ(rig.StepRows(), (Rows{1, 0}));
  EXPECT_EQ(rig.StepRows(), (Rows{1, 0})) << "the late one, alone";
  rig.RunAll();
}

TEST(EngineModesTest, ContiguousHoldsTheLongestCaseWhileItRuns) {
  for (const kv::Layout layout : {kv::Layout::kContiguous, kv::Layout::kPaged}) {
    const bool contiguous = layout == kv::Layout::kContiguous;
    Rig rig(Options(Batching::kContinuous, layout));
    rig.Submit(Rig::MakeRequest(Rig::Prompt(5), 30));  // 35 tokens in blocks of 4
    rig.Step();
    EXPECT_EQ(rig.engine->Snapshot().referenced_blocks, contiguous ? 9 : 2);
    EXPECT_EQ(rig.engine->Snapshot().table_blocks, contiguous ? 9 : 2);
    EXPECT_EQ(rig.engine->Snapshot().live_tokens, 5);
    rig.RunAll();
    EXPECT_EQ(rig.engine->Snapshot().referenced_blocks, 0);
  }
}

TEST(EngineModesTest, ContiguousNeverPreemptsAndAdmitsWhomItHasARunFor) {
  EngineOptions options = Options(Batching::kContinuous);
  options.num_blocks = 10;
  Rig rig(options);
  std::vector<Request> requests;
  for (int i = 0; i < 3; ++i) requests.push_back(Rig::MakeRequest(Rig::Prompt(3, 10 * i + 1), 13));
  for (const Request& request : requests) rig.Submit(request);
  rig.Step();
  EXPECT_EQ(rig.engine->Snapshot().running, 2) << "worst cases of four blocks each, of ten";
  rig.RunAll();
  for (const StepStats& stats : rig.metrics.steps) EXPECT_EQ(stats.preemptions, 0);
  for (const Request& request : requests) {
    EXPECT_EQ(Rig::SinkOf(request).tokens(), rig.Answer(request));
  }
}

TEST(EngineModesTest, AnswersAreThoseOfTheDefault) {
  std::vector<EngineOptions> modes;
  for (const Batching batching : {Batching::kContinuous, Batching::kStatic, Batching::kStaticCompacted}) {
    for (const kv::Layout layout : {kv::Layout::kPaged, kv::Layout::kContiguous}) {
      modes.push_back(Options(batching, layout));
      modes.back().speculation = true;
      modes.back().num_blocks = 20;
      if (layout == kv::Layout::kContiguous) continue;
      modes.push_back(modes.back());
      modes.back().prefix_cache = true;
    }
  }
  for (const EngineOptions& options : modes) {
    SCOPED_TRACE(absl::StrCat("batching ", static_cast<int>(options.batching), ", layout ",
                              static_cast<int>(options.kv_layout), ", cache ", options.prefix_cache));
    Rig rig(options);
    std::vector<Request> requests;
    for (int i = 0; i < 12; ++i) {
      requests.push_back(Rig::MakeRequest(Rig::Prompt(5 + 3 * (i % 4), 1 + 7 * (i % 3)), 3 + 5 * (i % 5)));
      requests.back().seed = i;
      rig.Submit(requests.back());
    }
    rig.RunAll();
    for (const Request& request : requests) {
      EXPECT_EQ(Rig::SinkOf(request).tokens(), rig.Answer(request));
    }
    EXPECT_EQ(rig.engine->Snapshot().referenced_blocks, 0);
  }
}

}  // namespace
}  // namespace qanat::engine
