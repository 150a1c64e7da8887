// What a worker tells of itself once, as plain data.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "common/api/generate.h"
#include "common/hash/block_hash.h"
#include "qanat/cluster/v1/worker.pb.h"
#include "qanat/v1/model.pb.h"

namespace qanat::api {

// Facts that never change while a worker lives.
struct WorkerInfo {
  ServedModel model;  // pool_tokens is this worker's
  std::string architecture;
  std::string quantization;
  bool chat_template = false;     // understood
  std::string model_fingerprint;  // equal fingerprints, equal models
  std::string numerics_id;        // see NumericsId
  hash::BlockHash hash_check = 0;
  uint64_t epoch = 0;        // drawn at start
  int32_t max_requests = 0;  // running and waiting
  std::string version;
};

cluster::v1::GetInfoResponse ToProto(const WorkerInfo& info);
// INVALID_ARGUMENT for numbers that no worker can have (a block size of 0, say): the peer is not one of ours.
absl::StatusOr<WorkerInfo> FromProto(const cluster::v1::GetInfoResponse& proto);

// The entry of ListModels.
v1::Model ToModel(const WorkerInfo& info);

// Equal ids, equal bits: `device` names what else decides them than the weights (kernels, formats).
std::string NumericsId(std::string_view device, std::string_view model_fingerprint);

// The hash of the second of two blocks of tokens 0, 1, 2, ... in the public namespace: equal only where key,
// model and block size are. REQUIRES: block_size > 0.
hash::BlockHash HashCheck(const hash::HashKey& key, std::string_view model_fingerprint, int block_size);

}  // namespace qanat::api
