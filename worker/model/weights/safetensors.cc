#include "worker/model/weights/safetensors.h"

#include <algorithm>
#include <cstring>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "worker/model/weights/safetensors_header.h"

namespace qanat::model {
namespace {

constexpr SafeTensorsType kTypes[] = {
    {"BOOL", 8},    {"F4", 4},      {"F6_E2M3", 6}, {"F6_E3M2", 6},     {"U8", 8},          {"I8", 8},
    {"F8_E5M2", 8}, {"F8_E4M3", 8}, {"F8_E8M0", 8}, {"F8_E4M3FNUZ", 8}, {"F8_E5M2FNUZ", 8}, {"I16", 16},
    {"U16", 16},    {"F16", 16},    {"BF16", 16},   {"I32", 32},        {"U32", 32},        {"F32", 32},
    {"C64", 64},    {"F64", 64},    {"I64", 64},    {"U64", 64},
};

// The bytes that the shape takes. The product is formed from the left, so that a later 0 does not mend an
// overflow: the format's own library counts so too.
absl::StatusOr<uint64_t> BytesOf(const SafeTensorsFile& file, const SafeTensor& tensor) {
  uint64_t bits = 1;
  bool overflow = false;
  for (const uint64_t dim : tensor.shape) overflow |= __builtin_mul_overflow(bits, dim, &bits);
  overflow |= __builtin_mul_overflow(bits, uint64_t{static_cast<unsigned>(tensor.type->bits)}, &bits);
  if (overflow) return file.Error(tensor.name, "its size in bits overflows");
  if (bits % 8 != 0) return file.Error(tensor.name, "ends inside a byte");
  return bits / 8;
}

// `next`: where the tensor before it ended.
absl::Status CheckPlace(const SafeTensorsFile& file, const SafeTensorEntry& entry, uint64_t next,
                        uint64_t available) {
  const std::string& name = entry.tensor.name;
  if (entry.begin > entry.end) {
    return file.Error(name, absl::StrCat("begins at ", entry.begin, " and ends at ", entry.end));
  }
  if (entry.end > available) {
    return file.Error(name, absl::StrCat("ends at byte ", entry.end, " of ", available, " bytes of data"));
  }
  if (entry.begin != next) {
    return file.Error(name, absl::StrCat("begins at byte ", entry.begin, ", but what is before it ends at ",
                                         next, ": data has no holes and no overlap"));
  }
  QANAT_ASSIGN_OR_RETURN(const uint64_t bytes, BytesOf(file, entry.tensor));
  if (entry.end - entry.begin != bytes) {
    return file.Error(
        name, absl::StrCat("has ", entry.end - entry.begin, " bytes; its shape and dtype take ", bytes));
  }
  return absl::OkStatus();
}

}  // namespace

const SafeTensorsType* FindSafeTensorsType(std::string_view name) {
  for (const SafeTensorsType& type : kTypes) {
    if (type.name == name) return &type;
  }
  return nullptr;
}

absl::StatusOr<std::unique_ptr<SafeTensorsFile>> SafeTensorsFile::Open(const std::string& path) {
  QANAT_ASSIGN_OR_RETURN(MappedFile mapping, MappedFile::Open(path));
  QANAT_ASSIGN_OR_RETURN(std::unique_ptr<SafeTensorsFile> file, Parse(path, mapping.bytes()));
  file->mapping_ = std::move(mapping);
  return file;
}

absl::StatusOr<std::unique_ptr<SafeTensorsFile>> SafeTensorsFile::Parse(std::string name,
                                                                        absl::Span<const std::byte> bytes) {
  std::unique_ptr<SafeTensorsFile> file(new SafeTensorsFile(std::move(name)));
  file->bytes_ = bytes;
  QANAT_RETURN_IF_ERROR(file->Read());
  return file;
}

absl::Status SafeTensorsFile::Error(std::string_view subject, std::string_view reason) const {
  return FileError(name_, subject, reason);
}

absl::Status SafeTensorsFile::Read() {
  uint64_t length = 0;
  if (bytes_.size() < sizeof(length)) return Error("header length", "the file ends inside it");
  std::memcpy(&length, bytes_.data(), sizeof(length));
  if (length > kMaxHeaderBytes) {
    return Error("header length",
                 absl::StrCat(length, " bytes are more than the limit of ", kMaxHeaderBytes));
  }
  if (length > bytes_.size() - sizeof(length)) {
    return Error("header length",
                 absl::StrCat(length, " bytes reach past the end of the file (", bytes_.size(), " bytes)"));
  }
  const std::string_view json(reinterpret_cast<const char*>(bytes_.data()) + sizeof(length), length);
  QANAT_ASSIGN_OR_RETURN(SafeTensorsHeader header, ReadSafeTensorsHeader(name_, json));
  metadata_ = std::move(header.metadata);

  const absl::Span<const std::byte> data = bytes_.subspan(sizeof(length) + length);
  std::sort(header.entries.begin(), header.entries.end(),
            [](const SafeTensorEntry& a, const SafeTensorEntry& b) {
              return std::tie(a.begin, a.end) < std::tie(b.begin, b.end);
            });
  tensors_.reserve(header.entries.size());  // no name moves once the index looks at it
  tensor_index_.reserve(header.entries.size());
  uint64_t next = 0;
  for (SafeTensorEntry& entry : header.entries) {
    QANAT_RETURN_IF_ERROR(CheckPlace(*this, entry, next, data.size()));
    next = entry.end;
    entry.tensor.data = data.subspan(entry.begin, entry.end - entry.begin);
    const SafeTensor& tensor = tensors_.emplace_back(std::move(entry.tensor));
    if (!tensor_index_.emplace(tensor.name, static_cast<int>(tensors_.size()) - 1).second) {
      return Error(tensor.name, "comes twice");
    }
  }
  if (next != data.size()) {
    return Error("data", absl::StrCat(data.size() - next, " bytes at the end belong to no tensor"));
  }
  return absl::OkStatus();
}

const SafeTensor* SafeTensorsFile::FindTensor(std::string_view name) const {
  const auto it = tensor_index_.find(name);
  return it == tensor_index_.end() ? nullptr : &tensors_[it->second];
}

}  // namespace qanat::model
