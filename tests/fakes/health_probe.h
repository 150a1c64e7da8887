// A probe of grpc.health.v1.
#pragma once

#include <memory>
#include <string>

#include "grpcpp/channel.h"
#include "grpcpp/client_context.h"
#include "grpcpp/completion_queue.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/support/byte_buffer.h"

namespace qanat::fakes {

// One call of Health/Check, written as bytes, since the system ships no health.proto. 1: serving; 2: not
// serving; -1: the server does not know the service, or does not answer. REQUIRES: service.size() < 128.
inline int ProbeHealth(const std::shared_ptr<grpc::Channel>& channel, const std::string& service) {
  // Field 1 of the request is the service; field 1 of the answer is the status.
  std::string bytes;
  if (!service.empty()) bytes = std::string({'\x0a', static_cast<char>(service.size())}) + service;
  const grpc::Slice slice(bytes);
  const grpc::ByteBuffer request(&slice, 1);
  grpc::ClientContext context;
  grpc::CompletionQueue queue;
  const auto call =
      grpc::GenericStub(channel).PrepareUnaryCall(&context, "/grpc.health.v1.Health/Check", request, &queue);
  grpc::ByteBuffer answer;
  grpc::Status status;
  call->StartCall();
  call->Finish(&answer, &status, nullptr);
  void* tag = nullptr;
  bool ok = false;
  queue.Next(&tag, &ok);
  grpc::Slice body;
  if (!status.ok() || !answer.DumpToSingleSlice(&body).ok() || body.size() != 2) return -1;
  return body.begin()[1];
}

}  // namespace qanat::fakes
