#include "tests/fakes/fake_model_runner.h"

#include <algorithm>

#include "common/base/check.h"

namespace qanat::fakes {
namespace {

constexpr TokenId kNothing = -7;
constexpr TokenId kRuined = -8;

uint64_t Mix(uint64_t hash, uint64_t value) {
  hash = (hash ^ value) * 0x9e3779b97f4a7c15;
  return hash ^ (hash >> 29);
}

// What the rules should go by when `answer` has been drawn.
sampling::TokenCounts CountsOf(const engine::Request& request, absl::Span<const TokenId> answer) {
  sampling::TokenCounts counts;
  if (request.rules == nullptr) return counts;
  if (request.rules->repetition_penalty != 1) {
    for (const TokenId token : request.prompt) counts[token] = 0;
  }
  if (request.rules->penalizes()) {
    for (const TokenId token : answer) ++counts[token];
  }
  return counts;
}

}  // namespace

FakeModelRunner::HeldRow::HeldRow(const engine::BatchSequence& given)
    : row(given),
      tokens(given.tokens.begin(), given.tokens.end()),
      block_table(given.block_table.begin(), given.block_table.end()),
      scored(given.scored.begin(), given.scored.end()) {
  row.tokens = tokens;
  row.block_table = block_table;
  row.scored = scored;
  if (given.rules == nullptr) return;
  rules = *given.rules;
  counts = *given.counts;
  row.rules = &rules;
  row.counts = &counts;
}

FakeModelRunner::FakeModelRunner(int32_t num_blocks, int32_t block_size, int32_t vocabulary, int depth)
    : block_size_(block_size),
      vocabulary_(vocabulary),
      depth_(depth),
      slots_(static_cast<size_t>(num_blocks) * block_size, kNothing) {}

engine::ModelRunner::Handle FakeModelRunner::Launch(const engine::ModelBatch& batch) {
  QANAT_CHECK(!batch.sequences.empty());
  QANAT_CHECK(static_cast<int>(in_flight_.size()) < depth());
  if (on_launch_) on_launch_(batch);
  for (const engine::BatchSequence& row : batch.sequences) {
    CheckUnused(row);
    pending_reads_ += ReadsPending(row) ? 1 : 0;
  }
  HeldBatch& held = in_flight_[++last_handle_];
  for (const engine::BatchSequence& row : batch.sequences) held.emplace_back(row);
  return last_handle_;
}

engine::StepOutput FakeModelRunner::Collect(Handle handle) {
  QANAT_CHECK(!in_flight_.empty() && in_flight_.begin()->first == handle) << "not the oldest step in flight";
  HeldBatch& held = in_flight_.begin()->second;
  // As a device does, all rows write before any reads.
  for (HeldRow& row : held) {
    Resolve(row);
    row.fails = failing_.erase(row.row.id) > 0;
    if (row.fails) failed_.insert(row.row.id);
    Write(row);
  }
  engine::StepOutput output;
  for (const HeldRow& row : held) {
    const engine::SequenceOutput& got = output.sequences.emplace_back(Run(row));
    // A failed row leaves something, too.
    drawn_[row.row.id] = got.more.empty() ? std::max(got.token, 0) : got.more.back();
  }
  in_flight_.erase(in_flight_.begin());
  return output;
}

void FakeModelRunner::CheckUnused(const engine::BatchSequence& row) const {
  for (const auto& [handle, batch] : in_flight_) {
    for (const HeldRow& other : batch) {
      if (other.row.id == row.id) continue;
      for (size_t i = row.first_position / block_size_; i < row.block_table.size(); ++i) {
        QANAT_CHECK(std::count(other.block_table.begin(), other.block_table.end(), row.block_table[i]) == 0)
            << "block " << row.block_table[i] << " is written while a step in flight uses it";
      }
    }
  }
}

bool FakeModelRunner::ReadsPending(const engine::BatchSequence& row) const {
  const auto read = row.block_table.first(row.first_position / block_size_);
  for (const auto& [handle, batch] : in_flight_) {
    for (const HeldRow& other : batch) {
      const auto written =
          absl::MakeConstSpan(other.block_table).subspan(other.row.first_position / block_size_);
      if (other.row.id != row.id &&
          std::find_first_of(read.begin(), read.end(), written.begin(), written.end()) != read.end()) {
        return true;
      }
    }
  }
  return false;
}

void FakeModelRunner::Resolve(HeldRow& held) const {
  if (held.tokens.front() != engine::kDrawnBefore) return;
  QANAT_CHECK(held.tokens.size() == 1);
  const auto drawn = drawn_.find(held.row.id);
  QANAT_CHECK(drawn != drawn_.end()) << "no row before drew anything for this sequence";
  held.tokens.front() = drawn->second;
}

void FakeModelRunner::Write(const HeldRow& held) {
  const engine::BatchSequence& row = held.row;
  QANAT_CHECK(!row.tokens.empty());
  const size_t end = row.first_position + row.tokens.size();
  QANAT_CHECK(row.block_table.size() == (end + block_size_ - 1) / block_size_);
  if (row.id == engine::kPaddingId) {
    for (const int32_t block : row.block_table) Wipe(block);
    return;
  }
  for (size_t i = 0; i < row.tokens.size(); ++i) {
    const size_t position = row.first_position + i;
    const size_t block = static_cast<size_t>(row.block_table[position / block_size_]) * block_size_;
    const size_t slot = position % block_size_;
    if (slot == 0) Wipe(row.block_table[position / block_size_]);
    slots_.at(block + slot) = held.fails ? kRuined : row.tokens[i];
  }
  computed_tokens_ += static_cast<int64_t>(row.tokens.size());
}

void FakeModelRunner::Wipe(int32_t block) {
  const size_t first = static_cast<size_t>(block) * block_size_;
  QANAT_CHECK(first < slots_.size()) << "there is no block " << block;
  std::fill_n(slots_.begin() + static_cast<int64_t>(first), block_size_, kNothing);
}

std::vector<TokenId> FakeModelRunner::ReadContext(const engine::BatchSequence& row) const {
  std::vector<TokenId> context(row.first_position + row.tokens.size());
  for (size_t position = 0; position < context.size(); ++position) {
    const size_t block = static_cast<size_t>(row.block_table[position / block_size_]) * block_size_;
    context[position] = slots_.at(block + position % block_size_);
    QANAT_CHECK(context[position] != kNothing) << "position " << position << " was never computed";
  }
  return context;
}

engine::SequenceOutput FakeModelRunner::Run(const HeldRow& held) const {
  const engine::BatchSequence& row = held.row;
  if (row.id == engine::kPaddingId) return {engine::SequenceOutput::Kind::kFailed, -1};
  const std::vector<TokenId> context = ReadContext(row);
  if (held.fails) return {engine::SequenceOutput::Kind::kFailed, -1};
  engine::SequenceOutput output;
  for (size_t i = 0; i < row.scored.size(); ++i) {
    const size_t before = row.first_position + row.first_scored + i + 1;
    output.scored.push_back(
        Score(absl::MakeConstSpan(context).first(before), row.scored[i], row.scored_logprobs, vocabulary_));
  }
  if (!row.sample) return output;
  output.kind = engine::SequenceOutput::Kind::kToken;
  engine::BatchSequence at = row;
  const size_t known = context.size() - static_cast<size_t>(row.num_drafts);
  for (size_t end = known; end <= context.size(); ++end, ++at.draw.position) {
    const absl::Span<const TokenId> before = absl::MakeConstSpan(context).first(end);
    const TokenId token = Draw(at, before, vocabulary_);
    if (end == known) {
      output.token = token;
    } else {
      output.more.push_back(token);
    }
    if (row.logprobs.has_value()) output.drawn.push_back(Score(before, token, *row.logprobs, vocabulary_));
    if (end < context.size() && context[end] != token) break;
  }
  return output;
}

sampling::ScoredToken FakeModelRunner::Score(absl::Span<const TokenId> context, TokenId token,
                                             int32_t num_likeliest, int32_t vocabulary) {
  uint64_t hash = 3;
  for (const TokenId id : context) hash = Mix(hash, static_cast<uint64_t>(id) + 1);
  const auto below = [&](uint64_t salt, int32_t bound) {
    return static_cast<int32_t>(Mix(hash, salt) % static_cast<uint64_t>(bound));
  };
  sampling::ScoredToken scored;
  scored.chosen = {token, -static_cast<float>(below(static_cast<uint64_t>(token), 1000))};
  for (int32_t i = 0; i < num_likeliest; ++i) {
    scored.likeliest.push_back({below(static_cast<uint64_t>(i), vocabulary), -static_cast<float>(i)});
  }
  return scored;
}

TokenId FakeModelRunner::Draw(const engine::BatchSequence& row, absl::Span<const TokenId> context,
                              int32_t vocabulary) {
  uint64_t hash = 0;
  if (!row.params.greedy()) {
    hash = Mix(Mix(Mix(hash, row.draw.seed), row.draw.choice), row.draw.position);
  }
  if (row.rules != nullptr) {
    uint64_t counts = 0;  // in no order
    for (const auto& [token, count] : *row.counts) {
      counts += Mix(Mix(1, static_cast<uint64_t>(token)), static_cast<uint64_t>(count));
    }
    hash = Mix(hash, counts);
  }
  for (const TokenId token : context) hash = Mix(hash, static_cast<uint64_t>(token) + 1);
  const auto token = [&] { return static_cast<TokenId>(hash % static_cast<uint64_t>(vocabulary)); };
  // Too early for an end: the next one in the dice.
  while (row.rules != nullptr && static_cast<int32_t>(row.draw.position) < row.rules->min_tokens &&
         std::find(row.rules->late.begin(), row.rules->late.end(), token()) != row.rules->late.end()) {
    hash = Mix(hash, 1);
  }
  return token();
}

std::vector<TokenId> FakeModelRunner::Answer(const engine::Request& request, int32_t context_length,
                                             int32_t vocabulary, uint32_t choice) {
  std::vector<TokenId> tokens = request.prompt;
  std::vector<TokenId> answer;
  while (static_cast<int32_t>(answer.size()) < request.max_tokens &&
         static_cast<int32_t>(tokens.size()) < context_length) {
    engine::BatchSequence row;
    row.params = request.sampling;
    const sampling::TokenCounts counts = CountsOf(request, answer);
    row.rules = request.rules.get();
    row.counts = &counts;
    row.draw = {request.seed, choice, static_cast<uint32_t>(answer.size())};
    answer.push_back(Draw(row, tokens, vocabulary));
    tokens.push_back(answer.back());
    const auto& ends = request.end_tokens;
    if (std::find(ends.begin(), ends.end(), answer.back()) != ends.end()) break;
  }
  return answer;
}

}  // namespace qanat::fakes
