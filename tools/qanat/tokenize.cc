// `qanat tokenize`: the ids of a text, exactly as generate would use them.
#include <cstdio>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "common/base/status_macros.h"
#include "common/rpc/options.h"
#include "common/rpc/status.h"
#include "qanat/v1/inference.grpc.pb.h"
#include "tools/qanat/client.h"
#include "tools/qanat/command.h"

namespace qanat::tools {
namespace {

struct TokenizeOptions {
  ClientOptions client;
  std::string text;
  std::string model;
  bool chat = false;
  std::string system;
};

absl::Status Run(const TokenizeOptions& options) {
  v1::TokenizeRequest request;
  request.set_model(options.model);
  QANAT_ASSIGN_OR_RETURN(const std::string text, ReadText(options.text));
  if (options.chat || !options.system.empty()) {
    *request.mutable_chat() = MakeChat(options.system, text);
  } else {
    request.set_text(text);
  }
  const std::shared_ptr<grpc::Channel> channel = rpc::MakeChannel(options.client.target);
  const auto stub = v1::InferenceService::NewStub(channel);
  v1::TokenizeResponse response;
  QANAT_RETURN_IF_ERROR(RunCall(options.client, channel, [&](grpc::ClientContext& context) {
    return rpc::FromGrpc(stub->Tokenize(&context, request, &response));
  }));
  if (options.client.json) {
    PrintJson(response);
  } else {
    for (int i = 0; i < response.token_ids_size(); ++i)
      std::printf(i == 0 ? "%d" : " %d", response.token_ids(i));
    std::printf("\n");
  }
  return absl::OkStatus();
}

}  // namespace

Command AddTokenize(CLI::App& qanat) {
  CLI::App* app = qanat.add_subcommand("tokenize", "Prints the token ids of a text");
  const auto options = std::make_shared<TokenizeOptions>();
  app->add_option("text", options->text, "the text; - reads it from standard input")->required();
  AddClientOptions(*app, options->client);
  app->add_option("--model", options->model, "which model, where several are served");
  app->add_flag("--chat", options->chat, "the text is a user's turn of a conversation");
  app->add_option("--system", options->system, "what the system says first (implies --chat)");
  return {app, [options] { return Run(*options); }};
}

}  // namespace qanat::tools
