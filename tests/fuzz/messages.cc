#include "tests/fuzz/messages.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>

#include "google/protobuf/descriptor.h"
#include "qanat/cluster/v1/worker.pb.h"
#include "qanat/v1/inference.pb.h"

// libFuzzer's own way to change bytes.
extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

namespace qanat::fuzz {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

int64_t EdgeInteger(std::minstd_rand& random) {
  constexpr int64_t kEdges[] = {0,  1,   -1,  2,    16,    17,        63,        64,
                                65, 256, 257, 1024, 65536, INT32_MAX, INT32_MIN, INT64_MAX};
  return random() % 4 == 0 ? static_cast<int64_t>(random()) % 300 : kEdges[random() % std::size(kEdges)];
}

double EdgeNumber(std::minstd_rand& random) {
  const double edges[] = {0.0, -0.0, 1.0, 2.0, 0.5, -1.0, 1e-30, 10.0, 100.0, 1e30, std::nan(""), INFINITY};
  return edges[random() % std::size(edges)];
}

std::string EdgeText(std::minstd_rand& random) {
  static const char* const kTexts[] = {"",   "m",  "user",         "hello",           "<|im_end|>", "[]",
                                       "{}", "[1", "{\"a\": [1]}", "\xE6\xB0\xB4 \n", "gpt2",       "smollm"};
  std::string text = kTexts[random() % std::size(kTexts)];
  if (random() % 16 == 0) text.assign(1u << (random() % 9), 'a');
  return text;
}

// Sets a field that is no message, or adds to it where it is repeated.
void SetScalar(Message& message, const FieldDescriptor& field, std::minstd_rand& random) {
  const Reflection& reflection = *message.GetReflection();
  const bool repeated = field.is_repeated();
  const auto put = [&](auto set, auto add, auto value) {
    if (repeated) {
      (reflection.*add)(&message, &field, value);
    } else {
      (reflection.*set)(&message, &field, value);
    }
  };
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return put(&Reflection::SetInt32, &Reflection::AddInt32, static_cast<int32_t>(EdgeInteger(random)));
    case FieldDescriptor::CPPTYPE_INT64:
      return put(&Reflection::SetInt64, &Reflection::AddInt64, EdgeInteger(random));
    case FieldDescriptor::CPPTYPE_UINT32:
      return put(&Reflection::SetUInt32, &Reflection::AddUInt32, static_cast<uint32_t>(EdgeInteger(random)));
    case FieldDescriptor::CPPTYPE_UINT64:
      return put(&Reflection::SetUInt64, &Reflection::AddUInt64, static_cast<uint64_t>(EdgeInteger(random)));
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return put(&Reflection::SetDouble, &Reflection::AddDouble, EdgeNumber(random));
    case FieldDescriptor::CPPTYPE_FLOAT:
      return put(&Reflection::SetFloat, &Reflection::AddFloat, static_cast<float>(EdgeNumber(random)));
    case FieldDescriptor::CPPTYPE_BOOL:
      return put(&Reflection::SetBool, &Reflection::AddBool, random() % 2 == 0);
    case FieldDescriptor::CPPTYPE_ENUM:
      return put(&Reflection::SetEnumValue, &Reflection::AddEnumValue, static_cast<int>(random() % 6));
    case FieldDescriptor::CPPTYPE_STRING:
      if (repeated) return reflection.AddString(&message, &field, EdgeText(random));
      return reflection.SetString(&message, &field, EdgeText(random));
    case FieldDescriptor::CPPTYPE_MESSAGE:
      break;
  }
}

}  // namespace

std::unique_ptr<Message> NewMessage(MessageKind kind) {
  switch (kind) {
    case MessageKind::kGenerate:
      return std::make_unique<v1::GenerateRequest>();
    case MessageKind::kTokenize:
      return std::make_unique<v1::TokenizeRequest>();
    case MessageKind::kDetokenize:
      return std::make_unique<v1::DetokenizeRequest>();
    case MessageKind::kTokenizer:
      return std::make_unique<cluster::v1::Tokenizer>();
    case MessageKind::kWorkerInfo:
      return std::make_unique<cluster::v1::GetInfoResponse>();
  }
  return nullptr;
}

void MutateMessage(Message& message, std::minstd_rand& random) {
  const Reflection& reflection = *message.GetReflection();
  const auto& descriptor = *message.GetDescriptor();
  if (descriptor.field_count() == 0) return;
  const FieldDescriptor& field = *descriptor.field(static_cast<int>(random() % descriptor.field_count()));
  const int size = field.is_repeated() ? reflection.FieldSize(message, &field) : 0;
  const auto choice = random() % 8;
  if (choice == 0) return reflection.ClearField(&message, &field);
  if (choice == 1 && size > 0) return reflection.RemoveLast(&message, &field);
  if (field.cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) return SetScalar(message, field, random);
  Message* inner = nullptr;
  if (!field.is_repeated()) {
    inner = reflection.MutableMessage(&message, &field);
  } else if (size == 0 || choice < 4) {
    inner = reflection.AddMessage(&message, &field);
  } else {
    inner = reflection.MutableRepeatedMessage(&message, &field, static_cast<int>(random()) % size);
  }
  MutateMessage(*inner, random);
}

}  // namespace qanat::fuzz

// Half of the changes are to bytes, as libFuzzer makes them, half to fields.
extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned int seed) {
  using namespace qanat::fuzz;
  std::minstd_rand random(seed);
  if (size == 0 || random() % 2 == 0) return LLVMFuzzerMutate(data, size, max_size);
  const auto message = NewMessage(KindOf(data[0]));
  // What does not parse is left where the parser stopped: a start like any other.
  (void)message->ParsePartialFromArray(data + 1, static_cast<int>(size) - 1);
  for (auto changes = 1 + random() % 3; changes > 0; --changes) MutateMessage(*message, random);
  std::string bytes;
  if (!message->SerializePartialToString(&bytes) || bytes.size() + 1 > max_size) return size;
  std::memcpy(data + 1, bytes.data(), bytes.size());
  return bytes.size() + 1;
}
