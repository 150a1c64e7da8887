// `qanat models`: what is served.
#include <cstdio>
#include <memory>

#include "absl/status/status.h"
#include "common/base/status_macros.h"
#include "common/rpc/options.h"
#include "common/rpc/status.h"
#include "qanat/v1/model.grpc.pb.h"
#include "tools/qanat/client.h"
#include "tools/qanat/command.h"

namespace qanat::tools {
namespace {

absl::Status Run(const ClientOptions& options) {
  const std::shared_ptr<grpc::Channel> channel = rpc::MakeChannel(options.target);
  const auto stub = v1::ModelService::NewStub(channel);
  v1::ListModelsResponse response;
  QANAT_RETURN_IF_ERROR(RunCall(options, channel, [&](grpc::ClientContext& context) {
    return rpc::FromGrpc(stub->ListModels(&context, v1::ListModelsRequest(), &response));
  }));
  if (options.json) {
    PrintJson(response);
    return absl::OkStatus();
  }
  for (const v1::Model& model : response.models()) {
    std::printf("%s  %s %s, context %d, vocabulary %d, blocks of %d, %s\n", model.id().c_str(),
                model.architecture().c_str(), model.quantization().c_str(), model.context_length(),
                model.vocab_size(), model.block_size(), model.chat_template() ? "chat" : "no chat");
  }
  return absl::OkStatus();
}

}  // namespace

Command AddModels(CLI::App& qanat) {
  CLI::App* app = qanat.add_subcommand("models", "Lists the models that are served");
  const auto options = std::make_shared<ClientOptions>();
  AddClientOptions(*app, *options);
  return {app, [options] { return Run(*options); }};
}

}  // namespace qanat::tools
