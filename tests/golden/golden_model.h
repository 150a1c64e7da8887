// A model file with everything it takes to compute its logits, and the values to hold them against.
#pragma once

#include <algorithm>
#include <cmath>
#include <fstream>
#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "nlohmann/json.hpp"
#include "worker/backend/cpu_backend.h"
#include "worker/model/decoder.h"
#include "worker/model/model_loader.h"

namespace qanat::golden {

struct ModelOptions {
  std::string kernels = "reference";
  int threads = 2;
  int max_tokens = 64;
  int num_blocks = 128;
  bool float_cache = false;  // the reference's is in any case
};

// What: one loaded model on a CPU backend, its cache empty of meaning: every Run of a sequence says which
// blocks it owns. Threads: one. Errors: a check ends the test binary.
class GoldenModel {
 public:
  GoldenModel(const std::string& path, const ModelOptions& options) : max_tokens_(options.max_tokens) {
    CreateBackend(options);
    auto loaded = model::LoadModel(path, *backend_,
                                   {.max_tokens = options.max_tokens, .max_logit_rows = options.max_tokens});
    QANAT_CHECK(loaded.ok()) << loaded.status().ToString();
    loaded_ = *std::move(loaded);
    AllocateKv(options);
  }

  // The tensors of `file` as a model of the test's own shape; without a vocabulary.
  GoldenModel(const model::GgufFile& file, const model::ModelConfig& config, const ModelOptions& options)
      : max_tokens_(options.max_tokens) {
    CreateBackend(options);
    auto decoder = model::CreateDecoder(file, config, *backend_,
                                        {.max_tokens = options.max_tokens,
                                         .max_logit_rows = options.max_tokens,
                                         .max_context = config.context_length});
    QANAT_CHECK(decoder.ok()) << decoder.status().ToString();
    loaded_.config = config;
    loaded_.model = *std::move(decoder);
    AllocateKv(options);
  }

  using Visit = std::function<void(size_t position, absl::Span<const float> logits)>;

  // Computes `ids` from position 0 in chunks of at most `chunk`, in blocks 0, 1, ...; shows the logits that
  // follow each id.
  void Run(absl::Span<const TokenId> ids, size_t chunk, const Visit& visit) {
    std::vector<int32_t> blocks((ids.size() + kBlockSize - 1) / kBlockSize);
    std::iota(blocks.begin(), blocks.end(), 0);
    for (size_t at = 0; at < ids.size(); at += chunk) {
      const size_t size = std::min(chunk, ids.size() - at);
      Step({{ids.subspan(at, size), at, blocks}},
           [&](size_t, size_t row, absl::Span<const float> logits) { visit(at + row, logits); });
    }
  }

  // One sequence's share of a step.
  struct Part {
    absl::Span<const TokenId> ids;
    size_t first_position;
    absl::Span<const int32_t> blocks;
  };
  using VisitPart = std::function<void(size_t part, size_t row, absl::Span<const float> logits)>;

  // One step; every row's logits.
  void Step(const std::vector<Part>& parts, const VisitPart& visit) {
    std::vector<TokenId> ids;
    backend::BatchLayout layout;
    for (const Part& part : parts) {
      const auto needed = (part.first_position + part.ids.size() + kBlockSize - 1) / kBlockSize;
      layout.sequences.push_back({.first_row = static_cast<int>(ids.size()),
                                  .num_rows = static_cast<int>(part.ids.size()),
                                  .first_position = static_cast<int>(part.first_position),
                                  .block_table = part.blocks.first(needed)});
      ids.insert(ids.end(), part.ids.begin(), part.ids.end());
    }
    layout.num_rows = static_cast<int>(ids.size());
    QANAT_CHECK(layout.num_rows <= max_tokens_) << layout.num_rows << " rows";
    std::vector<int32_t> rows(ids.size());
    std::iota(rows.begin(), rows.end(), 0);
    const backend::Activations logits = loaded_.model->Forward(ids, layout, rows);
    backend_->Synchronize();
    for (size_t part = 0; part < parts.size(); ++part) {
      for (int row = 0; row < layout.sequences[part].num_rows; ++row) {
        visit(part, row, backend_->Row(logits, layout.sequences[part].first_row + row));
      }
    }
  }

  backend::Backend& backend() { return *backend_; }
  const model::LoadedModel& loaded() const { return loaded_; }

  static constexpr int kBlockSize = 16;

 private:
  void CreateBackend(const ModelOptions& options) {
    auto backend = backend::CreateCpuBackend({.threads = options.threads,
                                              .kernels = options.kernels,
                                              .float_cache = options.float_cache,
                                              .pin = false});
    QANAT_CHECK(backend.ok()) << backend.status().ToString();
    backend_ = *std::move(backend);
  }

  void AllocateKv(const ModelOptions& options) {
    const bool float_cache = options.float_cache || options.kernels == "reference";
    const auto format = float_cache ? backend::KvFormat::kF32 : backend::KvFormat::kBF16;
    const absl::Status status =
        backend_->AllocateKv(model::KvConfigFor(loaded_.config, kBlockSize, options.num_blocks, format));
    QANAT_CHECK(status.ok()) << status.ToString();
  }

  const int max_tokens_;
  std::unique_ptr<backend::Backend> backend_;  // outlives the model
  model::LoadedModel loaded_;
};

// log(sum(exp(logits))): a logit less this is its log-probability.
inline double LogSumExp(absl::Span<const float> logits) {
  const double max = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float logit : logits) sum += std::exp(logit - max);
  return max + std::log(sum);
}

inline TokenId Best(absl::Span<const float> logits) {
  return static_cast<TokenId>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

// The most likely tokens and their log-probabilities, the best first.
using Top = std::vector<std::pair<TokenId, double>>;

// The largest difference over the first `count` of `expected`.
inline double Deviation(absl::Span<const float> logits, const Top& expected, size_t count) {
  const double normalizer = LogSumExp(logits);
  double largest = 0;
  for (size_t i = 0; i < count; ++i) {
    largest = std::max(largest, std::abs(logits[expected[i].first] - normalizer - expected[i].second));
  }
  return largest;
}

inline double Mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

// A line of greedy.jsonl: top[n] follows ids and the first n of `greedy`.
struct GreedyCase {
  std::vector<TokenId> ids;
  std::vector<TokenId> greedy;
  std::vector<double> margin;
  std::vector<Top> top;

  // Everything that is fed to get the top of every step.
  std::vector<TokenId> Fed() const {
    std::vector<TokenId> fed = ids;
    fed.insert(fed.end(), greedy.begin(), greedy.end() - 1);
    return fed;
  }
};

inline nlohmann::json ReadJson(std::istream& input) {
  QANAT_CHECK(input.good()) << "a golden file cannot be read";
  return nlohmann::json::parse(input);
}

inline std::vector<GreedyCase> ReadGreedy(const std::string& path) {
  std::ifstream file(path);
  QANAT_CHECK(file.good()) << path << " cannot be read";
  std::vector<GreedyCase> cases;
  for (std::string line; std::getline(file, line);) {
    const auto json = nlohmann::json::parse(line);
    cases.push_back({json.at("ids"), json.at("greedy"), json.at("margin"), json.at("top10")});
  }
  return cases;
}

// A line of perplexity.jsonl.
struct PerplexityCase {
  std::vector<TokenId> ids;
  double nll_per_token;
};

inline std::vector<PerplexityCase> ReadPerplexity(const std::string& path) {
  std::ifstream file(path);
  QANAT_CHECK(file.good()) << path << " cannot be read";
  std::vector<PerplexityCase> cases;
  for (std::string line; std::getline(file, line);) {
    const auto json = nlohmann::json::parse(line);
    cases.push_back({json.at("ids"), json.at("nll_per_token")});
  }
  return cases;
}

// The model's perplexity of those ids, of the expected one. Mean over the tokens after the first.
inline double PerplexityRatio(GoldenModel& model, const PerplexityCase& expected) {
  const std::vector<TokenId>& ids = expected.ids;
  double sum = 0;
  model.Run(ids, 64, [&](size_t position, absl::Span<const float> logits) {
    if (position + 1 < ids.size()) sum += LogSumExp(logits) - logits[ids[position + 1]];
  });
  return std::exp(sum / static_cast<double>(ids.size() - 1) - expected.nll_per_token);
}

// Over every step of every case: the largest deviation of the ten best, the deviations of the `best` best at
// the first step, and how often the best token is the same.
struct GreedySeen {
  double largest = 0;
  std::vector<double> first;
  int same = 0;
  int steps = 0;
  double widest_lost_margin = 0;
};

inline GreedySeen MeasureGreedy(GoldenModel& model, const std::vector<GreedyCase>& cases, size_t best) {
  GreedySeen seen;
  for (const GreedyCase& golden : cases) {
    model.Run(golden.Fed(), 64, [&](size_t position, absl::Span<const float> logits) {
      if (position + 1 < golden.ids.size()) return;
      const size_t step = position + 1 - golden.ids.size();
      seen.largest = std::max(seen.largest, Deviation(logits, golden.top[step], golden.top[step].size()));
      if (step == 0) seen.first.push_back(Deviation(logits, golden.top[0], best));
      ++seen.steps;
      if (Best(logits) == golden.greedy[step]) {
        ++seen.same;
      } else {
        seen.widest_lost_margin = std::max(seen.widest_lost_margin, golden.margin[step]);
      }
    });
  }
  return seen;
}

}  // namespace qanat::golden
