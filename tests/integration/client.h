// A caller of a router or of a worker.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "grpcpp/channel.h"
#include "qanat/v1/inference.grpc.pb.h"

namespace qanat::integration {

// What one call brought, whole.
struct Answer {
  std::string text;
  std::vector<int> token_ids;
  v1::Finish finish;
  v1::Usage usage;
  uint64_t seed = 0;
  int messages = 0;
  bool in_order = true;  // first_token had neither gap nor repeat
  absl::Status status;
};

// What: calls one server. Owns its connection. Threads: any. Errors: are in the answer.
class Client {
 public:
  explicit Client(const std::string& address);

  // Asks for the token ids, too.
  Answer Generate(v1::GenerateRequest request);
  // Reads `messages` messages and leaves; whether it came so far.
  bool GenerateAndLeave(const v1::GenerateRequest& request, int messages);
  v1::InferenceService::Stub& stub() { return *stub_; }
  const std::shared_ptr<grpc::Channel>& channel() const { return channel_; }

 private:
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::InferenceService::Stub> stub_;
};

// Adds a message to what came so far.
void Append(const v1::GenerateResponse& response, Answer& answer);

// A prompt of two parts: the first is shared with all of equal `prefix_salt` and length.
v1::GenerateRequest PromptOf(int prefix_tokens, int prefix_salt, int tokens, int salt, int max_tokens);

// Token ids that no other `salt` shares a block with.
v1::GenerateRequest PromptOf(int tokens, int salt, int max_tokens);

}  // namespace qanat::integration
