#include "worker/model/weights/gguf_parser.h"

#include <bit>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "worker/model/weights/gguf_types.h"

namespace qanat::model {
namespace {

static_assert(std::endian::native == std::endian::little, "GGUF is read where it lies");

constexpr uint64_t kMaxNameBytes = 65535;
constexpr uint32_t kMaxDims = 4;
// The least bytes that an entry of each table can take.
constexpr uint64_t kMinKeyBytes = sizeof(uint64_t) + sizeof(uint32_t) + 1;
constexpr uint64_t kMinTensorBytes = 3 * sizeof(uint64_t) + 2 * sizeof(uint32_t);

// Bytes of a value of fixed size; 0 for strings, arrays and types that do not exist.
uint64_t FixedSize(uint32_t type) {
  constexpr uint8_t kSizes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
  return type < std::size(kSizes) ? kSizes[type] : 0;
}

bool BoolsAreValid(const std::byte* data, uint64_t count) {
  for (uint64_t i = 0; i < count; ++i) {
    if (std::to_integer<uint8_t>(data[i]) > 1) return false;
  }
  return true;
}

}  // namespace

template <typename T>
bool GgufParser::Read(T& value) {
  if (remaining() < sizeof(T)) return false;
  std::memcpy(&value, here(), sizeof(T));
  at_ += sizeof(T);
  return true;
}

bool GgufParser::ReadString(std::string_view& text) {
  uint64_t size = 0;
  if (!Read(size) || size > remaining()) return false;
  text = {reinterpret_cast<const char*>(here()), size};
  at_ += size;
  return true;
}

absl::Status GgufParser::Cut(std::string_view subject) const {
  return file_.Error(subject,
                     absl::StrCat("reaches past the end of the file (", file_.bytes_.size(), " bytes)"));
}

absl::Status GgufParser::Run() {
  QANAT_RETURN_IF_ERROR(ReadHeader());
  QANAT_RETURN_IF_ERROR(ReadKeys());
  QANAT_RETURN_IF_ERROR(ReadAlignment());
  return ReadTensors();
}

absl::Status GgufParser::ReadHeader() {
  char magic[4] = {};
  if (!Read(magic) || std::memcmp(magic, "GGUF", sizeof(magic)) != 0) {
    return file_.Error("magic", "not a GGUF file");
  }
  uint32_t version = 0;
  if (!Read(version)) return Cut("version");
  if (version != GgufFile::kVersion) {
    return absl::UnimplementedError(absl::StrCat(file_.name(), ": version: ", version,
                                                 " is not supported, only ", GgufFile::kVersion, " is"));
  }
  if (!Read(num_tensors_)) return Cut("tensor count");
  if (!Read(num_keys_)) return Cut("key count");
  if (num_keys_ > GgufFile::kMaxKeys || num_keys_ > remaining() / kMinKeyBytes) {
    return file_.Error("key count",
                       absl::StrCat(num_keys_, " keys cannot be in a file of ", file_.bytes_.size(),
                                    " bytes; the limit is ", GgufFile::kMaxKeys));
  }
  if (num_tensors_ > GgufFile::kMaxTensors || num_tensors_ > remaining() / kMinTensorBytes) {
    return file_.Error("tensor count",
                       absl::StrCat(num_tensors_, " tensors cannot be in a file of ", file_.bytes_.size(),
                                    " bytes; the limit is ", GgufFile::kMaxTensors));
  }
  return absl::OkStatus();
}

absl::Status GgufParser::ReadKeys() {
  for (uint64_t i = 0; i < num_keys_; ++i) {
    std::string_view key;
    if (!ReadString(key)) return Cut(absl::StrCat("key ", i));
    if (key.empty() || key.size() > kMaxNameBytes) {
      return file_.Error(absl::StrCat("key ", i), absl::StrCat("a key of ", key.size(), " bytes"));
    }
    GgufFile::Value value{};
    QANAT_RETURN_IF_ERROR(ReadValue(key, value));
    if (!file_.values_.emplace(key, value).second) return file_.Error(key, "duplicate key");
  }
  return absl::OkStatus();
}

absl::Status GgufParser::ReadValue(std::string_view key, GgufFile::Value& value) {
  uint32_t type = 0;
  if (!Read(type)) return Cut(key);
  value.type = static_cast<ValueType>(type);
  if (value.type == ValueType::kArray) return ReadArray(key, value);
  if (value.type == ValueType::kString) {
    std::string_view text;
    if (!ReadString(text)) return Cut(key);
    value.data = reinterpret_cast<const std::byte*>(text.data());
    value.size = text.size();
    return absl::OkStatus();
  }
  const uint64_t size = FixedSize(type);
  if (size == 0) return file_.Error(key, absl::StrCat("unknown value type ", type));
  if (size > remaining()) return Cut(key);
  value.data = here();
  at_ += size;
  if (value.type == ValueType::kBool && !BoolsAreValid(value.data, 1)) {
    return file_.Error(key, "a bool that is neither 0 nor 1");
  }
  return absl::OkStatus();
}

absl::Status GgufParser::ReadArray(std::string_view key, GgufFile::Value& value) {
  uint32_t element = 0;
  if (!Read(element) || !Read(value.count)) return Cut(key);
  value.element = static_cast<ValueType>(element);
  value.data = here();
  if (value.element == ValueType::kArray) return file_.Error(key, "an array of arrays");
  if (value.element == ValueType::kString) {
    if (value.count > remaining() / sizeof(uint64_t)) return Cut(key);
    for (uint64_t i = 0; i < value.count; ++i) {
      std::string_view text;
      if (!ReadString(text)) return Cut(key);
    }
    return absl::OkStatus();
  }
  const uint64_t size = FixedSize(element);
  if (size == 0) return file_.Error(key, absl::StrCat("an array of unknown value type ", element));
  if (value.count > remaining() / size) return Cut(key);
  at_ += value.count * size;
  if (value.element == ValueType::kBool && !BoolsAreValid(value.data, value.count)) {
    return file_.Error(key, "a bool that is neither 0 nor 1");
  }
  return absl::OkStatus();
}

absl::Status GgufParser::ReadAlignment() {
  constexpr std::string_view kKey = "general.alignment";
  QANAT_ASSIGN_OR_RETURN(alignment_, file_.GetU32Or(kKey, alignment_));
  if (!std::has_single_bit(alignment_) || alignment_ > GgufFile::kMaxAlignment) {
    return file_.Error(kKey,
                       absl::StrCat(alignment_, " is no power of two of at most ", GgufFile::kMaxAlignment));
  }
  return absl::OkStatus();
}

absl::Status GgufParser::ReadTensors() {
  std::vector<uint64_t> offsets(num_tensors_);
  std::vector<uint64_t> sizes(num_tensors_);
  file_.tensors_.resize(num_tensors_);
  for (uint64_t i = 0; i < num_tensors_; ++i) {
    GgufTensor& tensor = file_.tensors_[i];
    if (!ReadString(tensor.name)) return Cut(absl::StrCat("tensor ", i));
    if (tensor.name.empty() || tensor.name.size() > kMaxNameBytes) {
      return file_.Error(absl::StrCat("tensor ", i),
                         absl::StrCat("a name of ", tensor.name.size(), " bytes"));
    }
    QANAT_RETURN_IF_ERROR(ReadTensor(tensor, offsets[i], sizes[i]));
    if (!file_.tensor_index_.emplace(tensor.name, static_cast<int>(i)).second) {
      return file_.Error(tensor.name, "duplicate tensor name");
    }
  }
  return PlaceTensors(offsets, sizes);
}

absl::Status GgufParser::ReadTensor(GgufTensor& tensor, uint64_t& offset, uint64_t& size) {
  uint32_t num_dims = 0;
  if (!Read(num_dims)) return Cut(tensor.name);
  if (num_dims == 0 || num_dims > kMaxDims) {
    return file_.Error(tensor.name, absl::StrCat(num_dims, " dimensions; 1 to ", kMaxDims, " are possible"));
  }
  tensor.num_dims = static_cast<int>(num_dims);
  uint64_t elements = 1;
  for (uint32_t d = 0; d < num_dims; ++d) {
    uint64_t dim = 0;
    if (!Read(dim)) return Cut(tensor.name);
    if (dim == 0) return file_.Error(tensor.name, absl::StrCat("dimension ", d, " is 0"));
    if (dim > INT64_MAX || __builtin_mul_overflow(elements, dim, &elements) || elements > INT64_MAX) {
      return file_.Error(tensor.name, "the product of its dimensions overflows");
    }
    tensor.dims[d] = static_cast<int64_t>(dim);
  }
  uint32_t type = 0;
  if (!Read(type) || !Read(offset)) return Cut(tensor.name);
  const TypeTraits* traits = FindType(type);
  if (traits == nullptr) {
    return absl::UnimplementedError(
        absl::StrCat(file_.Error(tensor.name, absl::StrCat("unknown tensor type ", type)).message()));
  }
  tensor.type = traits->type;
  if (tensor.dims[0] % traits->block_elements != 0) {
    return file_.Error(tensor.name,
                       absl::StrCat("rows of ", tensor.dims[0], " elements are not whole blocks of ",
                                    traits->block_elements));
  }
  if (__builtin_mul_overflow(elements / traits->block_elements,
                             uint64_t{static_cast<unsigned>(traits->block_bytes)}, &size)) {
    return file_.Error(tensor.name, "its size in bytes overflows");
  }
  return absl::OkStatus();
}

absl::Status GgufParser::PlaceTensors(absl::Span<const uint64_t> offsets, absl::Span<const uint64_t> sizes) {
  if (file_.tensors_.empty()) return absl::OkStatus();
  // at_ is at most the file's size and the alignment at most 2^20: this cannot overflow.
  const uint64_t start = (at_ + alignment_ - 1) / alignment_ * alignment_;
  if (start > file_.bytes_.size()) return Cut("tensor data");
  const uint64_t available = file_.bytes_.size() - start;
  for (size_t i = 0; i < offsets.size(); ++i) {
    GgufTensor& tensor = file_.tensors_[i];
    if (offsets[i] % alignment_ != 0) {
      return file_.Error(
          tensor.name, absl::StrCat("offset ", offsets[i], " is no multiple of the alignment ", alignment_));
    }
    if (offsets[i] > available || sizes[i] > available - offsets[i]) {
      return file_.Error(tensor.name, absl::StrCat(sizes[i], " bytes at offset ", offsets[i],
                                                   " reach past the end of the file (", available,
                                                   " bytes of tensor data)"));
    }
    tensor.data = file_.bytes_.subspan(start + offsets[i], sizes[i]);
  }
  return absl::OkStatus();
}

}  // namespace qanat::model
