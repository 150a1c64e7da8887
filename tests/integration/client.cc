#include "tests/integration/client.h"

#include <chrono>
#include <random>

#include "common/base/clock.h"
#include "common/rpc/options.h"
#include "common/rpc/status.h"

namespace qanat::integration {
namespace {

// A call that takes longer has gone wrong.
constexpr auto kPatience = std::chrono::seconds(60);

void SetPatience(grpc::ClientContext& context) {
  context.set_deadline(std::chrono::system_clock::now() + kPatience);
}

}  // namespace

Client::Client(const std::string& address)
    : channel_(rpc::MakeChannel(address)), stub_(v1::InferenceService::NewStub(channel_)) {}

void Append(const v1::GenerateResponse& response, Answer& answer) {
  answer.in_order = answer.in_order && response.first_token() == static_cast<int>(answer.token_ids.size());
  answer.text += response.text();
  answer.token_ids.insert(answer.token_ids.end(), response.token_ids().begin(), response.token_ids().end());
  if (response.has_finish()) answer.finish = response.finish();
  if (response.has_usage()) answer.usage = response.usage();
  if (response.has_seed()) answer.seed = response.seed();
  ++answer.messages;
}

Answer Client::Generate(v1::GenerateRequest request) {
  request.mutable_output()->set_token_ids(true);
  grpc::ClientContext context;
  SetPatience(context);
  const auto reader = stub_->Generate(&context, request);
  Answer answer;
  v1::GenerateResponse response;
  while (reader->Read(&response)) Append(response, answer);
  answer.status = rpc::FromGrpc(reader->Finish());
  return answer;
}

bool Client::GenerateAndLeave(const v1::GenerateRequest& request, int messages) {
  grpc::ClientContext context;
  SetPatience(context);
  const auto reader = stub_->Generate(&context, request);
  v1::GenerateResponse response;
  bool all = true;
  for (int i = 0; i < messages && all; ++i) all = reader->Read(&response);
  context.TryCancel();
  while (reader->Read(&response)) {
  }
  reader->Finish();
  return all;
}

v1::GenerateRequest PromptOf(int tokens, int salt, int max_tokens) {
  // Ordinary words of the small model's vocabulary.
  constexpr int kFirst = 1000;
  constexpr int kLast = 30000;
  std::mt19937 random(static_cast<unsigned>(salt));
  v1::GenerateRequest request;
  for (int i = 0; i < tokens; ++i) {
    request.mutable_token_ids()->add_ids(kFirst + static_cast<int>(random() % (kLast - kFirst)));
  }
  request.mutable_sampling()->set_temperature(0);
  request.mutable_stopping()->set_max_tokens(max_tokens);
  request.mutable_stopping()->set_ignore_eos(true);
  return request;
}

v1::GenerateRequest PromptOf(int prefix_tokens, int prefix_salt, int tokens, int salt, int max_tokens) {
  v1::GenerateRequest request = PromptOf(prefix_tokens, prefix_salt, max_tokens);
  request.mutable_token_ids()->MergeFrom(PromptOf(tokens, salt, max_tokens).token_ids());
  return request;
}

}  // namespace qanat::integration
