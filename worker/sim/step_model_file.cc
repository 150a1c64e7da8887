#include "worker/sim/step_model_file.h"

#include <fstream>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"

namespace qanat::sim {
namespace {

constexpr struct {
  const char* name;
  double StepModel::*value;
} kCoefficients[] = {
    {"fixed_us", &StepModel::fixed_us},     {"sequence_us", &StepModel::sequence_us},
    {"weights_us", &StepModel::weights_us}, {"token_us", &StepModel::token_us},
    {"context_us", &StepModel::context_us}, {"attention_us", &StepModel::attention_us},
};

}  // namespace

std::string ToJson(const StepModel& model) {
  nlohmann::ordered_json json;
  for (const auto& coefficient : kCoefficients) json[coefficient.name] = model.*coefficient.value;
  return json.dump(2) + "\n";
}

absl::StatusOr<StepModel> ReadStepModel(const std::string& path) {
  std::ifstream file(path);
  if (!file) return absl::NotFoundError(absl::StrCat(path, ": cannot be read"));
  const nlohmann::json json = nlohmann::json::parse(file, nullptr, false);
  if (!json.is_object()) return absl::InvalidArgumentError(absl::StrCat(path, ": is no JSON object"));
  StepModel model;
  for (const auto& coefficient : kCoefficients) {
    const auto it = json.find(coefficient.name);
    if (it == json.end() || !it->is_number() || !(it->get<double>() >= 0)) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, ": ", coefficient.name, ": must be a number of microseconds, not negative"));
    }
    model.*coefficient.value = it->get<double>();
  }
  if (model == StepModel{}) return absl::InvalidArgumentError(absl::StrCat(path, ": all coefficients are 0"));
  return model;
}

}  // namespace qanat::sim
