#include "router/link/grpc_link_handshake.h"

#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/hash/sha256.h"
#include "common/rpc/status.h"

namespace qanat::router {
namespace {

// No vocabulary is near it; it bounds what a peer can make us hold.
constexpr size_t kMaxTokenizerBytes = 256 << 20;

absl::StatusOr<std::string> ReadChunks(cluster::v1::WorkerService::Stub& stub, grpc::ClientContext& context) {
  const auto reader = stub.GetTokenizer(&context, cluster::v1::GetTokenizerRequest());
  std::string bytes;
  std::string sha256;
  cluster::v1::GetTokenizerResponse part;
  while (reader->Read(&part)) {
    if (bytes.size() + part.chunk().size() > kMaxTokenizerBytes) {
      context.TryCancel();
      return absl::DataLossError(absl::StrCat("its tokenizer is longer than ", kMaxTokenizerBytes, " bytes"));
    }
    bytes += part.chunk();
    sha256 = part.sha256();
  }
  QANAT_RETURN_IF_ERROR(rpc::FromGrpc(reader->Finish()));
  if (hash::Sha256(bytes) != sha256)
    return absl::DataLossError("its tokenizer does not have the sha256 it names");
  return bytes;
}

absl::StatusOr<ModelText> FetchText(cluster::v1::WorkerService::Stub& stub, const RunCall& run_call) {
  absl::StatusOr<std::string> bytes = absl::UnknownError("not asked");
  QANAT_RETURN_IF_ERROR(run_call([&](grpc::ClientContext& context) {
    bytes = ReadChunks(stub, context);
    return bytes.status();
  }));
  cluster::v1::Tokenizer proto;
  if (!proto.ParseFromString(*bytes)) return absl::DataLossError("its tokenizer is not a Tokenizer message");
  return MakeModelText(proto);
}

}  // namespace

absl::StatusOr<ReadyWorker> AskWorker(cluster::v1::WorkerService::Stub& stub, TokenizerStore& store,
                                      const RunCall& run_call) {
  cluster::v1::GetInfoResponse info;
  QANAT_RETURN_IF_ERROR(run_call([&](grpc::ClientContext& context) {
    return rpc::FromGrpc(stub.GetInfo(&context, cluster::v1::GetInfoRequest(), &info));
  }));
  ReadyWorker worker;
  QANAT_ASSIGN_OR_RETURN(worker.info, api::FromProto(info));
  ModelText text = store.Find(worker.info.model_fingerprint);
  if (text.tokenizer == nullptr) {
    QANAT_ASSIGN_OR_RETURN(ModelText fetched, FetchText(stub, run_call));
    text = store.Put(worker.info.model_fingerprint, std::move(fetched));
  }
  if (text.tokenizer->size() > worker.info.model.vocab_size) {
    return absl::InvalidArgumentError(absl::StrCat("its tokenizer has ", text.tokenizer->size(),
                                                   " tokens, its model only ", worker.info.model.vocab_size));
  }
  worker.tokenizer = std::move(text.tokenizer);
  worker.chat_template = std::move(text.chat_template);
  return worker;
}

}  // namespace qanat::router
