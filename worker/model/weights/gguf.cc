#include "worker/model/weights/gguf.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/error.h"
#include "common/base/status_macros.h"
#include "worker/model/weights/gguf_parser.h"

namespace qanat::model {
namespace {

absl::string_view View(std::string_view text) { return {text.data(), text.size()}; }

template <typename T>
T Load(const std::byte* data) {
  T value;
  std::memcpy(&value, data, sizeof(value));
  return value;
}

absl::Status Missing(const GgufFile& file, std::string_view key) {
  return WithField(absl::NotFoundError(absl::StrCat(file.name(), ": ", View(key), ": missing")), key);
}

// `otherwise` when the key is absent; any other error stays one.
template <typename T>
absl::StatusOr<T> Or(absl::StatusOr<T> value, T otherwise) {
  if (absl::IsNotFound(value.status())) return otherwise;
  return value;
}

}  // namespace

absl::StatusOr<std::unique_ptr<GgufFile>> GgufFile::Open(const std::string& path) {
  QANAT_ASSIGN_OR_RETURN(MappedFile mapping, MappedFile::Open(path));
  QANAT_ASSIGN_OR_RETURN(std::unique_ptr<GgufFile> gguf, Parse(path, mapping.bytes()));
  gguf->mapping_ = std::move(mapping);
  return gguf;
}

absl::StatusOr<std::unique_ptr<GgufFile>> GgufFile::Parse(std::string name,
                                                          absl::Span<const std::byte> bytes) {
  std::unique_ptr<GgufFile> gguf(new GgufFile(std::move(name)));
  gguf->bytes_ = bytes;
  QANAT_RETURN_IF_ERROR(GgufParser(*gguf).Run());
  return gguf;
}

absl::Status GgufFile::Error(std::string_view subject, std::string_view reason) const {
  return FileError(name_, subject, reason);
}

absl::StatusOr<const GgufFile::Value*> GgufFile::Find(std::string_view key) const {
  const auto it = values_.find(key);
  if (it == values_.end()) return Missing(*this, key);
  return &it->second;
}

absl::StatusOr<const GgufFile::Value*> GgufFile::FindArray(std::string_view key) const {
  QANAT_ASSIGN_OR_RETURN(const Value* value, Find(key));
  if (value->type != ValueType::kArray) return Error(key, "must be an array");
  return value;
}

absl::StatusOr<uint32_t> GgufFile::GetU32(std::string_view key) const {
  QANAT_ASSIGN_OR_RETURN(const Value* value, Find(key));
  std::optional<int64_t> number;
  switch (value->type) {
    case ValueType::kU8:
      number = Load<uint8_t>(value->data);
      break;
    case ValueType::kI8:
      number = Load<int8_t>(value->data);
      break;
    case ValueType::kU16:
      number = Load<uint16_t>(value->data);
      break;
    case ValueType::kI16:
      number = Load<int16_t>(value->data);
      break;
    case ValueType::kU32:
      number = Load<uint32_t>(value->data);
      break;
    case ValueType::kI32:
      number = Load<int32_t>(value->data);
      break;
    // A u64 beyond i64 turns negative here and is refused below like every other value out of range.
    case ValueType::kU64:
      number = static_cast<int64_t>(Load<uint64_t>(value->data));
      break;
    case ValueType::kI64:
      number = Load<int64_t>(value->data);
      break;
    default:
      break;
  }
  if (!number.has_value()) return Error(key, "must be an integer");
  if (!(*number >= 0 && *number <= std::numeric_limits<uint32_t>::max())) {
    return Error(key, "does not fit 32 bits without a sign");
  }
  return static_cast<uint32_t>(*number);
}

absl::StatusOr<float> GgufFile::GetF32(std::string_view key) const {
  QANAT_ASSIGN_OR_RETURN(const Value* value, Find(key));
  float number = 0;
  if (value->type == ValueType::kF32) {
    number = Load<float>(value->data);
  } else if (value->type == ValueType::kF64) {
    const double wide = Load<double>(value->data);
    if (!(std::fabs(wide) <= std::numeric_limits<float>::max())) return Error(key, "must be finite");
    number = static_cast<float>(wide);
  } else {
    return Error(key, "must be a floating-point number");
  }
  if (!std::isfinite(number)) return Error(key, "must be finite");
  return number;
}

absl::StatusOr<bool> GgufFile::GetBool(std::string_view key) const {
  QANAT_ASSIGN_OR_RETURN(const Value* value, Find(key));
  if (value->type != ValueType::kBool) return Error(key, "must be a bool");
  return Load<uint8_t>(value->data) != 0;
}

absl::StatusOr<std::string_view> GgufFile::GetString(std::string_view key) const {
  QANAT_ASSIGN_OR_RETURN(const Value* value, Find(key));
  if (value->type != ValueType::kString) return Error(key, "must be a string");
  return std::string_view(reinterpret_cast<const char*>(value->data), value->size);
}

absl::StatusOr<uint32_t> GgufFile::GetU32Or(std::string_view key, uint32_t otherwise) const {
  return Or(GetU32(key), otherwise);
}
absl::StatusOr<float> GgufFile::GetF32Or(std::string_view key, float otherwise) const {
  return Or(GetF32(key), otherwise);
}
absl::StatusOr<bool> GgufFile::GetBoolOr(std::string_view key, bool otherwise) const {
  return Or(GetBool(key), otherwise);
}
absl::StatusOr<std::string_view> GgufFile::GetStringOr(std::string_view key,
                                                       std::string_view otherwise) const {
  return Or(GetString(key), otherwise);
}

absl::StatusOr<uint64_t> GgufFile::GetArraySize(std::string_view key) const {
  QANAT_ASSIGN_OR_RETURN(const Value* value, FindArray(key));
  return value->count;
}

absl::StatusOr<std::vector<std::string_view>> GgufFile::GetStrings(std::string_view key) const {
  QANAT_ASSIGN_OR_RETURN(const Value* value, FindArray(key));
  if (value->element != ValueType::kString) return Error(key, "must be an array of strings");
  if (value->count > kMaxArrayElements) {
    return Error(key, absl::StrCat(value->count, " strings are more than the limit of ", kMaxArrayElements));
  }
  std::vector<std::string_view> strings;
  strings.reserve(value->count);
  const std::byte* at = value->data;
  for (uint64_t i = 0; i < value->count; ++i) {  // lengths were checked by the parser
    const uint64_t size = Load<uint64_t>(at);
    strings.emplace_back(reinterpret_cast<const char*>(at + sizeof(size)), size);
    at += sizeof(size) + size;
  }
  return strings;
}

absl::StatusOr<std::vector<int32_t>> GgufFile::GetI32s(std::string_view key) const {
  QANAT_ASSIGN_OR_RETURN(const Value* value, FindArray(key));
  if (value->element != ValueType::kI32 && value->element != ValueType::kU32) {
    return Error(key, "must be an array of 32-bit integers");
  }
  if (value->count > kMaxArrayElements) {
    return Error(key, absl::StrCat(value->count, " numbers are more than the limit of ", kMaxArrayElements));
  }
  std::vector<int32_t> numbers(value->count);
  if (!numbers.empty()) std::memcpy(numbers.data(), value->data, numbers.size() * sizeof(int32_t));
  if (value->element == ValueType::kU32) {
    for (const int32_t number : numbers) {
      if (number < 0) return Error(key, "holds a number above 2^31 - 1");
    }
  }
  return numbers;
}

absl::StatusOr<std::vector<float>> GgufFile::GetF32s(std::string_view key) const {
  QANAT_ASSIGN_OR_RETURN(const Value* value, FindArray(key));
  if (value->element != ValueType::kF32) return Error(key, "must be an array of 32-bit floats");
  if (value->count > kMaxArrayElements) {
    return Error(key, absl::StrCat(value->count, " numbers are more than the limit of ", kMaxArrayElements));
  }
  std::vector<float> numbers(value->count);
  if (!numbers.empty()) std::memcpy(numbers.data(), value->data, numbers.size() * sizeof(float));
  return numbers;
}

const GgufTensor* GgufFile::FindTensor(std::string_view name) const {
  const auto it = tensor_index_.find(name);
  return it == tensor_index_.end() ? nullptr : &tensors_[it->second];
}

}  // namespace qanat::model
