#include "common/api/worker_info.h"

#include <numeric>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/error.h"

namespace qanat::api {
namespace {

// Blocks larger than this are no blocks; it also bounds what HashCheck allocates for a peer's number.
constexpr int32_t kMaxBlockSize = 4096;

}  // namespace

cluster::v1::GetInfoResponse ToProto(const WorkerInfo& info) {
  cluster::v1::GetInfoResponse proto;
  proto.set_model_id(info.model.id);
  proto.set_architecture(info.architecture);
  proto.set_quantization(info.quantization);
  proto.set_context_length(info.model.context_length);
  proto.set_vocab_size(info.model.vocab_size);
  proto.set_block_size(info.model.block_size);
  proto.set_total_blocks(static_cast<int32_t>(info.model.pool_tokens / info.model.block_size));
  proto.set_chat_template(info.chat_template);
  proto.set_model_fingerprint(info.model_fingerprint);
  proto.set_numerics_id(info.numerics_id);
  proto.set_hash_check(info.hash_check);
  proto.set_epoch(info.epoch);
  proto.set_max_requests(info.max_requests);
  proto.set_version(info.version);
  return proto;
}

absl::StatusOr<WorkerInfo> FromProto(const cluster::v1::GetInfoResponse& proto) {
  if (proto.context_length() < 2) return InvalidField("context_length", absl::StrCat(proto.context_length()));
  if (proto.vocab_size() < 1) return InvalidField("vocab_size", absl::StrCat(proto.vocab_size()));
  if (proto.block_size() < 1 || proto.block_size() > kMaxBlockSize) {
    return InvalidField("block_size", absl::StrCat(proto.block_size()));
  }
  if (proto.total_blocks() < 1) return InvalidField("total_blocks", absl::StrCat(proto.total_blocks()));
  WorkerInfo info;
  info.model.id = proto.model_id();
  info.model.context_length = proto.context_length();
  info.model.vocab_size = proto.vocab_size();
  info.model.block_size = proto.block_size();
  info.model.pool_tokens = static_cast<int64_t>(proto.total_blocks()) * proto.block_size();
  info.architecture = proto.architecture();
  info.quantization = proto.quantization();
  info.chat_template = proto.chat_template();
  info.model_fingerprint = proto.model_fingerprint();
  info.numerics_id = proto.numerics_id();
  info.hash_check = proto.hash_check();
  info.epoch = proto.epoch();
  info.max_requests = proto.max_requests();
  info.version = proto.version();
  return info;
}

v1::Model ToModel(const WorkerInfo& info) {
  v1::Model model;
  model.set_id(info.model.id);
  model.set_context_length(info.model.context_length);
  model.set_block_size(info.model.block_size);
  model.set_vocab_size(info.model.vocab_size);
  model.set_architecture(info.architecture);
  model.set_quantization(info.quantization);
  model.set_chat_template(info.chat_template);
  return model;
}

std::string NumericsId(std::string_view device, std::string_view model_fingerprint) {
  constexpr size_t kDigits = 16;  // 64 bits
  return std::string(device).append("-").append(model_fingerprint.substr(0, kDigits));
}

hash::BlockHash HashCheck(const hash::HashKey& key, std::string_view model_fingerprint, int block_size) {
  std::vector<TokenId> tokens(2 * static_cast<size_t>(block_size));
  std::iota(tokens.begin(), tokens.end(), 0);
  return hash::BlockHasher(key, model_fingerprint, block_size).HashPrompt(hash::Namespace{}, tokens).back();
}

}  // namespace qanat::api
