// Guesses what comes next from what came before: texts that quote their prompt repeat its phrases.
#pragma once

#include <cstdint>

#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"
#include "common/base/ids.h"

namespace qanat::engine {

// What: drafts for one sequence: the tokens that followed the latest earlier occurrence of its last tokens,
// and how many of them are worth a try. Drafts are checked by the model, so a guess costs time and never a
// bit. Owns an index: two entries of 16 bytes for each position that it has seen, in tables that are half
// empty at times, so up to 80 bytes a position; it lives while its sequence runs. Threads: the engine thread.
// Errors: none.
//
// A long history is entered a part each call, so that no step is held up by it; until then it stays silent.
// How many: as many as the recent ones earned. All accepted: twice as many next time, up to kMaxDrafts; else
// one more than were accepted. After a draft of which nothing was accepted it stays silent for 1, 2, 4, ...
// up to 64 tokens.
class PromptLookup {
 public:
  static constexpr int32_t kMaxDrafts = 7;
  // Tokens that an occurrence must share with the end of the sequence; the longer one is asked first.
  static constexpr int32_t kLongGram = 4;
  static constexpr int32_t kShortGram = 2;
  // Positions entered in one call.
  static constexpr int32_t kMaxEntered = 2048;

  // At most `limit` tokens to follow `tokens`, the whole history of the sequence; a view into it. REQUIRES:
  // the histories of successive calls extend each other.
  absl::Span<const TokenId> Propose(absl::Span<const TokenId> tokens, int32_t limit);

  // Of the last proposal, that was run, `accepted` were right. REQUIRES: 0 <= accepted <= proposed, proposed
  // > 0.
  void Learn(int32_t proposed, int32_t accepted);

 private:
  using Index = absl::flat_hash_map<uint64_t, int32_t>;

  // Enters grams that end before the last token: an occurrence has something behind it. Whether all are.
  bool Enter(absl::Span<const TokenId> tokens);
  // The position behind the latest earlier occurrence of the last `gram` tokens; 0: none.
  int32_t Find(const Index& index, absl::Span<const TokenId> tokens, int32_t gram) const;

  Index long_, short_;   // hash of a gram -> the position behind its latest occurrence
  int32_t entered_ = 0;  // positions that occurrences may be behind: all below
  int32_t length_ = 2;   // of the next draft
  int32_t silent_until_ = 0;
  int32_t pause_ = 1;
  int32_t last_size_ = 0;  // of the history, at the last call
};

}  // namespace qanat::engine
