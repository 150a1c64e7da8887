// `qanat generate`: one request, its answer as it comes.
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/status_macros.h"
#include "common/rpc/options.h"
#include "common/rpc/status.h"
#include "qanat/v1/inference.grpc.pb.h"
#include "tools/qanat/client.h"
#include "tools/qanat/command.h"

namespace qanat::tools {
namespace {

// Unset: the server's default.
struct GenerateOptions {
  ClientOptions client;
  std::string prompt;
  std::string model;
  bool chat = false;
  std::string system;
  std::optional<int32_t> max_tokens;
  std::optional<float> temperature;
  std::optional<int32_t> top_k;
  std::optional<float> top_p;
  std::optional<float> min_p;
  std::optional<float> presence_penalty;
  std::optional<float> frequency_penalty;
  std::optional<float> repetition_penalty;
  std::vector<std::string> logit_bias;
  std::vector<int32_t> allowed_tokens;
  std::optional<uint64_t> seed;
  int32_t n = 1;
  std::optional<int32_t> min_tokens;
  std::vector<std::string> stop;
  std::vector<int32_t> stop_tokens;
  bool ignore_eos = false;
  bool include_stop = false;
  bool token_ids = false;
  std::optional<int32_t> logprobs;
  std::optional<int32_t> prompt_logprobs;
  bool final_only = false;
  std::string cache_salt;
};

// Of "ID=BIAS".
absl::Status AddBias(const std::string& argument, v1::SamplingParams& sampling) {
  const std::vector<std::string> parts = absl::StrSplit(argument, '=');
  int32_t id = 0;
  float bias = 0;
  if (parts.size() == 2 && absl::SimpleAtoi(parts[0], &id) && absl::SimpleAtof(parts[1], &bias)) {
    (*sampling.mutable_logit_bias())[id] = bias;
    return absl::OkStatus();
  }
  return UsageError(absl::StrCat("--logit-bias: expected ID=BIAS, got \"", argument, "\""));
}

absl::Status SetSampling(const GenerateOptions& options, v1::SamplingParams& sampling) {
  if (options.temperature) sampling.set_temperature(*options.temperature);
  if (options.top_k) sampling.set_top_k(*options.top_k);
  if (options.top_p) sampling.set_top_p(*options.top_p);
  if (options.min_p) sampling.set_min_p(*options.min_p);
  if (options.presence_penalty) sampling.set_presence_penalty(*options.presence_penalty);
  if (options.frequency_penalty) sampling.set_frequency_penalty(*options.frequency_penalty);
  if (options.repetition_penalty) sampling.set_repetition_penalty(*options.repetition_penalty);
  for (const std::string& bias : options.logit_bias) QANAT_RETURN_IF_ERROR(AddBias(bias, sampling));
  for (const int32_t id : options.allowed_tokens) sampling.add_allowed_token_ids(id);
  if (options.seed) sampling.set_seed(*options.seed);
  if (options.n != 1) sampling.set_n(options.n);
  return absl::OkStatus();
}

void SetStopping(const GenerateOptions& options, v1::StoppingParams& stopping) {
  if (options.max_tokens) stopping.set_max_tokens(*options.max_tokens);
  if (options.min_tokens) stopping.set_min_tokens(*options.min_tokens);
  for (const std::string& stop : options.stop) stopping.add_stop(stop);
  for (const int32_t id : options.stop_tokens) stopping.add_stop_token_ids(id);
  stopping.set_ignore_eos(options.ignore_eos);
  stopping.set_include_stop(options.include_stop);
}

absl::StatusOr<v1::GenerateRequest> MakeRequest(const GenerateOptions& options) {
  v1::GenerateRequest request;
  QANAT_ASSIGN_OR_RETURN(const std::string prompt, ReadText(options.prompt));
  if (options.chat || !options.system.empty()) {
    *request.mutable_chat() = MakeChat(options.system, prompt);
  } else {
    request.set_text(prompt);
  }
  request.set_model(options.model);
  request.set_cache_salt(options.cache_salt);
  QANAT_RETURN_IF_ERROR(SetSampling(options, *request.mutable_sampling()));
  SetStopping(options, *request.mutable_stopping());
  v1::OutputOptions& output = *request.mutable_output();
  output.set_token_ids(options.token_ids);
  if (options.logprobs) output.set_logprobs(*options.logprobs);
  if (options.prompt_logprobs) output.set_prompt_logprobs(*options.prompt_logprobs);
  if (options.final_only) output.set_delivery(v1::DELIVERY_FINAL_ONLY);
  return request;
}

// Choices come side by side: they are shown one after the other, when all are there.
using Choices = std::map<int32_t, std::string>;

void Print(const v1::GenerateResponse& response, const GenerateOptions& options, Choices& choices) {
  if (options.client.json) return PrintJson(response);
  if (options.n > 1) {
    choices[response.index()] += response.text();
    return;
  }
  std::fwrite(response.text().data(), 1, response.text().size(), stdout);
  std::fflush(stdout);
}

absl::Status Run(const GenerateOptions& options) {
  QANAT_ASSIGN_OR_RETURN(const v1::GenerateRequest request, MakeRequest(options));
  const std::shared_ptr<grpc::Channel> channel = rpc::MakeChannel(options.client.target);
  const auto stub = v1::InferenceService::NewStub(channel);
  bool answered = false;
  Choices choices;
  absl::Status end;
  QANAT_RETURN_IF_ERROR(RunCall(options.client, channel, [&](grpc::ClientContext& context) {
    const auto reader = stub->Generate(&context, request);
    v1::GenerateResponse response;
    while (reader->Read(&response)) {
      answered = true;
      Print(response, options, choices);
    }
    end = rpc::FromGrpc(reader->Finish());
    // What was printed cannot be taken back: no second attempt.
    return answered ? absl::OkStatus() : end;
  }));
  for (const auto& [index, text] : choices) std::printf("[%d] %s\n", index, text.c_str());
  if (answered && choices.empty() && !options.client.json && isatty(STDOUT_FILENO) == 1)
    std::fputc('\n', stdout);
  return end;
}

}  // namespace

Command AddGenerate(CLI::App& qanat) {
  CLI::App* app = qanat.add_subcommand("generate", "Generates text and prints it as it comes");
  const auto options = std::make_shared<GenerateOptions>();
  app->add_option("prompt", options->prompt, "the prompt; - reads it from standard input")->required();
  AddClientOptions(*app, options->client);
  app->add_option("--model", options->model, "which model, where several are served");
  app->add_flag("--chat", options->chat, "the prompt is a user's turn of a conversation");
  app->add_option("--system", options->system, "what the system says first (implies --chat)");
  app->add_option("--max-tokens", options->max_tokens, "most tokens to generate");
  app->add_option("--temperature", options->temperature, "0 is greedy; default 1");
  app->add_option("--top-k", options->top_k, "draw among the k most likely");
  app->add_option("--top-p", options->top_p, "draw among the most likely of this total probability");
  app->add_option("--min-p", options->min_p, "draw among those at least this likely, relative to the best");
  app->add_option("--presence-penalty", options->presence_penalty, "against tokens that came already");
  app->add_option("--frequency-penalty", options->frequency_penalty, "the same, for each time they came");
  app->add_option("--repetition-penalty", options->repetition_penalty,
                  "against tokens of the prompt and the answer; 1 is none");
  app->add_option("--logit-bias", options->logit_bias, "ID=BIAS, added to a token's logit; may be repeated")
      ->allow_extra_args(false);
  app->add_option("--allow-token", options->allowed_tokens, "draw among these ids only; may be repeated")
      ->allow_extra_args(false);
  app->add_option("--seed", options->seed, "equal seeds, equal answers");
  app->add_option("--n", options->n, "how many answers");
  app->add_option("--stop", options->stop, "end before this text; may be repeated")->allow_extra_args(false);
  app->add_option("--stop-token", options->stop_tokens, "end at this id; may be repeated")
      ->allow_extra_args(false);
  app->add_flag("--include-stop", options->include_stop, "show what ended it, too");
  app->add_option("--min-tokens", options->min_tokens, "do not end before so many tokens");
  app->add_flag("--ignore-eos", options->ignore_eos, "do not end where the model would");
  app->add_flag("--token-ids", options->token_ids, "ask for token ids, too (shown by --json)");
  app->add_option("--logprobs", options->logprobs,
                  "score each token and the k most likely (shown by --json)");
  app->add_option("--prompt-logprobs", options->prompt_logprobs, "the same for the prompt's tokens");
  app->add_flag("--final-only", options->final_only, "one message when it is complete");
  app->add_option("--cache-salt", options->cache_salt,
                  "share cached prefixes only with requests of this salt");
  return {app, [options] { return Run(*options); }};
}

}  // namespace qanat::tools
