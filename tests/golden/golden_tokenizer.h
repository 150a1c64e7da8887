// Tokenizers of model files, and the golden ids to hold them against.
#pragma once

#include <cstdlib>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "common/base/check.h"
#include "common/base/status_macros.h"
#include "common/text/tokenizer.h"
#include "nlohmann/json.hpp"
#include "worker/model/weights/gguf.h"
#include "worker/model/weights/vocabulary.h"

namespace qanat::golden {

inline std::string GoldenPath(const std::string& name) {
  return std::string(QANAT_SOURCE_DIR) + "/tests/golden/" + name;
}

// SmolLM2-135M-Instruct Q4_1, which is not checked in. A test that needs it fails without it.
inline std::string RealModelPath() {
  const char* path = std::getenv("QANAT_MODEL");
  QANAT_CHECK(path != nullptr) << "QANAT_MODEL must name SmolLM2-135M-Instruct.Q4_1.gguf";
  return path;
}

inline absl::StatusOr<std::unique_ptr<text::Tokenizer>> LoadTokenizer(const std::string& path) {
  QANAT_ASSIGN_OR_RETURN(const std::unique_ptr<model::GgufFile> file, model::GgufFile::Open(path));
  QANAT_ASSIGN_OR_RETURN(text::Vocabulary vocabulary, model::ReadVocabulary(*file));
  return text::Tokenizer::Create(std::move(vocabulary));
}

// The real model's, loaded once.
inline const text::Tokenizer& RealTokenizer() {
  static const auto& tokenizer =
      *new absl::StatusOr<std::unique_ptr<text::Tokenizer>>(LoadTokenizer(RealModelPath()));
  QANAT_CHECK(tokenizer.ok()) << tokenizer.status().ToString();
  return **tokenizer;
}

struct TextAndIds {
  std::string text;
  std::vector<TokenId> ids;
};

// A file of lines {"text": .., "ids": [..]}.
inline std::vector<TextAndIds> ReadTextsAndIds(const std::string& path) {
  std::ifstream file(path);
  QANAT_CHECK(file.good()) << path << " cannot be read";
  std::vector<TextAndIds> cases;
  for (std::string line; std::getline(file, line);) {
    const auto json = nlohmann::json::parse(line);
    cases.push_back({json.at("text"), json.at("ids")});
  }
  return cases;
}

}  // namespace qanat::golden
