#include "tests/fakes/fake_model_runner.h"

#include <algorithm>

#include "common/base/check.h"

namespace qanat::fakes {
namespace {

constexpr TokenId kNothing = -7;

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

FakeModelRunner::FakeModelRunner(int32_t num_blocks, int32_t block_size, int32_t vocabulary)
    : block_size_(block_size),
      vocabulary_(vocabulary),
      slots_(static_cast<size_t>(num_blocks) * block_size, kNothing) {}

engine::ModelRunner::Handle FakeModelRunner::Launch(const engine::ModelBatch& batch) {
  QANAT_CHECK(!batch.sequences.empty());
  QANAT_CHECK(static_cast<int>(in_flight_.size()) < depth());
  if (on_launch_) on_launch_(batch);
  // As a device does, all rows write before any reads.
  for (const engine::BatchSequence& row : batch.sequences) Write(row);
  engine::StepOutput output;
  for (const engine::BatchSequence& row : batch.sequences) output.sequences.push_back(Run(row));
  in_flight_.emplace(++last_handle_, std::move(output));
  return last_handle_;
}

engine::StepOutput FakeModelRunner::Collect(Handle handle) {
  const auto it = in_flight_.find(handle);
  QANAT_CHECK(it != in_flight_.end());
  engine::StepOutput output = std::move(it->second);
  in_flight_.erase(it);
  return output;
}

void FakeModelRunner::Write(const engine::BatchSequence& row) {
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
    slots_.at(block + slot) = row.tokens[i];
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

engine::SequenceOutput FakeModelRunner::Run(const engine::BatchSequence& row) {
  if (row.id == engine::kPaddingId) return {engine::SequenceOutput::Kind::kFailed, -1};
  const std::vector<TokenId> context = ReadContext(row);
  if (failing_.erase(row.id) > 0) return {engine::SequenceOutput::Kind::kFailed, -1};
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
