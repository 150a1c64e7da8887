// The messages that a fuzzer of requests tries, and how it changes them.
#pragma once

#include <cstdint>
#include <memory>
#include <random>

#include "google/protobuf/message.h"

namespace qanat::fuzz {

enum class MessageKind { kGenerate, kTokenize, kDetokenize, kTokenizer, kWorkerInfo };

inline MessageKind KindOf(uint8_t byte) { return static_cast<MessageKind>(byte % 5); }

// An empty message of that kind.
std::unique_ptr<google::protobuf::Message> NewMessage(MessageKind kind);

// Sets, clears or doubles one field somewhere in `message`, often to a value at the edge of what is allowed.
void MutateMessage(google::protobuf::Message& message, std::minstd_rand& random);

}  // namespace qanat::fuzz
