// The synthetic models of tests/golden/tiny and of the whole folder that QANAT_GOLDEN names.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "tests/golden/golden_model.h"
#include "tests/golden/golden_tokenizer.h"

namespace qanat::golden {

// Checked in: every family, every way to scale positions, every quantised format.
inline constexpr const char* kOurModels[] = {
    "llama-linear",  "llama-llama3",  "llama-yarn",     "qwen2x256-q4_k_m", "qwen3-tied",
    "gemma3",        "llama256-q8_0", "llama256-q4_0",  "llama256-q4_1",    "llama256-q5_0",
    "llama256-q5_1", "llama256-q2_k", "llama256-q3_k_m"};
// In the folder that the variable QANAT_GOLDEN names, if it does.
inline constexpr const char* kOtherModels[] = {
    "llama",        "mistral",       "qwen2",           "qwen2-tied",      "qwen3",        "gemma3-keys",
    "llama256-f16", "llama256-bf16", "llama256-q4_k_m", "llama256-q5_k_m", "llama256-q6_k"};

inline std::vector<std::string> AvailableModels() {
  std::vector<std::string> models(std::begin(kOurModels), std::end(kOurModels));
  if (std::getenv("QANAT_GOLDEN") == nullptr) return models;
  models.insert(models.end(), std::begin(kOtherModels), std::end(kOtherModels));
  return models;
}

// Of one of those.
inline std::string TinyPath(const std::string& file) {
  const std::string ours = GoldenPath("tiny/" + file);
  const char* whole = std::getenv("QANAT_GOLDEN");
  if (std::filesystem::exists(ours) || whole == nullptr) return ours;
  return std::string(whole) + "/tiny/" + file;
}

// What an established runtime was off by, and what leaving features out does to the values.
inline nlohmann::json ReadChecks(const std::string& model) {
  std::ifstream file(TinyPath("checks.json"));
  return ReadJson(file).at(model);
}

struct TinyPrompt {
  std::vector<TokenId> ids;
  std::vector<Top> top;  // top[n] follows ids[n]
  // greedy[n] follows ids and the first n of it; margin[n] is how far it is ahead of the second best.
  std::vector<TokenId> greedy;
  std::vector<double> margin;
};

inline std::vector<TinyPrompt> ReadPrompts(const std::string& name) {
  std::ifstream file(TinyPath(name + ".json"));
  std::vector<TinyPrompt> prompts;
  const nlohmann::json json = ReadJson(file);
  for (const auto& prompt : json.at("prompts")) {
    prompts.push_back({prompt.at("ids"), prompt.at("top10"), prompt.at("greedy"), prompt.at("margin")});
  }
  return prompts;
}

// How far a model is from its golden values.
struct Seen {
  std::vector<double> deviations;  // of the ten best tokens' log-probabilities, at every position
  std::vector<double> moved;       // of the best token's
  int steps = 0;                   // of greedy decoding
  int lost = 0;                    // those of them that chose another token
  double widest_lost_margin = 0;
};

inline Seen Measure(GoldenModel& model, const std::vector<TinyPrompt>& prompts) {
  Seen seen;
  for (const TinyPrompt& prompt : prompts) {
    std::vector<TokenId> fed = prompt.ids;
    fed.insert(fed.end(), prompt.greedy.begin(), prompt.greedy.end() - 1);
    model.Run(fed, 64, [&](size_t position, absl::Span<const float> logits) {
      if (position < prompt.ids.size()) {
        const double normalizer = LogSumExp(logits);
        for (const auto& [id, logprob] : prompt.top[position]) {
          seen.deviations.push_back(std::abs(logits[id] - normalizer - logprob));
        }
        seen.moved.push_back(seen.deviations[seen.deviations.size() - prompt.top[position].size()]);
      }
      if (position + 1 < prompt.ids.size()) return;
      const size_t step = position + 1 - prompt.ids.size();
      ++seen.steps;
      if (Best(logits) == prompt.greedy[step]) return;
      ++seen.lost;
      seen.widest_lost_margin = std::max(seen.widest_lost_margin, prompt.margin[step]);
    });
  }
  return seen;
}

}  // namespace qanat::golden
