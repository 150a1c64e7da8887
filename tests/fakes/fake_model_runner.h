// A model without arithmetic that notices every wrong block.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <set>
#include <vector>

#include "absl/types/span.h"
#include "worker/engine/model_runner.h"
#include "worker/engine/request.h"

namespace qanat::fakes {

// What: "keys and values" are the token ids themselves, one a slot of a physical block. The next token is a
// hash of the draw key, of the token counts if there are rules, and of the whole context as read back through
// the block table, so a block that is wrong, aliased, overwritten or stale changes the answer. Of the rules
// it keeps min_tokens alone. A slot that was never written since its block was begun anew ends the process.
// So does a block that is written while a step in flight uses it for another sequence. A step runs when it is
// collected, from copies made at launch: as late as a device may. What a failing row writes is ruined. A row
// of padding wipes its blocks, which nobody else may have. Threads: one, the engine thread.
class FakeModelRunner final : public engine::ModelRunner {
 public:
  FakeModelRunner(int32_t num_blocks, int32_t block_size, int32_t vocabulary = 1000, int depth = 1);

  Handle Launch(const engine::ModelBatch& batch) override;
  engine::StepOutput Collect(Handle handle) override;
  int depth() const override { return depth_; }

  // The answer that a model gives to `request` alone in the world.
  static std::vector<TokenId> Answer(const engine::Request& request, int32_t context_length,
                                     int32_t vocabulary = 1000, uint32_t choice = 0);

  // What the model gives to a token that comes after `context`.
  static sampling::ScoredToken Score(absl::Span<const TokenId> context, TokenId token, int32_t num_likeliest,
                                     int32_t vocabulary = 1000);

  // The next row of this sequence fails.
  void FailNextRowOf(SequenceId id) { failing_.insert(id); }
  bool HasFailed(SequenceId id) const { return failed_.count(id) > 0; }
  // Called with every batch, before it runs.
  void set_on_launch(std::function<void(const engine::ModelBatch&)> on_launch) {
    on_launch_ = std::move(on_launch);
  }
  int64_t computed_tokens() const { return computed_tokens_; }
  // Rows that read what a step in flight was still to compute for another sequence.
  int64_t pending_reads() const { return pending_reads_; }

 private:
  // A row with all that it points to.
  struct HeldRow {
    explicit HeldRow(const engine::BatchSequence& given);
    HeldRow(const HeldRow&) = delete;

    engine::BatchSequence row;
    std::vector<TokenId> tokens;
    std::vector<int32_t> block_table;
    std::vector<TokenId> scored;
    sampling::LogitRules rules;
    sampling::TokenCounts counts;
    bool fails = false;
  };
  using HeldBatch = std::list<HeldRow>;

  void CheckUnused(const engine::BatchSequence& row) const;
  bool ReadsPending(const engine::BatchSequence& row) const;
  void Resolve(HeldRow& held) const;
  static TokenId Draw(const engine::BatchSequence& row, absl::Span<const TokenId> context,
                      int32_t vocabulary);
  void Write(const HeldRow& held);
  void Wipe(int32_t block);
  std::vector<TokenId> ReadContext(const engine::BatchSequence& row) const;
  engine::SequenceOutput Run(const HeldRow& held) const;

  const int32_t block_size_;
  const int32_t vocabulary_;
  const int depth_;
  std::vector<TokenId> slots_;  // [num_blocks, block_size]
  std::map<Handle, HeldBatch> in_flight_;
  std::map<SequenceId, TokenId> drawn_;  // by the latest row of each
  Handle last_handle_ = 0;
  std::set<SequenceId> failing_;
  std::set<SequenceId> failed_;
  std::function<void(const engine::ModelBatch&)> on_launch_;
  int64_t computed_tokens_ = 0;
  int64_t pending_reads_ = 0;
};

}  // namespace qanat::fakes
