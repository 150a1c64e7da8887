#include "worker/model/weights/safetensors_header.h"

#include <algorithm>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "nlohmann/json.hpp"

namespace qanat::model {
namespace {

constexpr std::string_view kMetadata = "__metadata__";
constexpr std::string_view kHeader = "header";

// Takes the events of nlohmann's parser, which keeps no tree; places where nothing may come are refused at
// once, so that depth and memory are bounded whatever the input.
class HeaderReader final : public nlohmann::json_sax<nlohmann::json> {
 public:
  HeaderReader(std::string_view file, SafeTensorsHeader& header) : file_(file), header_(header) {}

  bool start_object(size_t) override {
    switch (place_) {
      case Place::kOutside:
        return Go(Place::kHeader);
      case Place::kEntry:
        return key_ == kMetadata ? StartMetadata() : StartTensor();
      default:
        return Unexpected("an object");
    }
  }

  bool key(std::string& key) override {
    if (!CountString(key)) return false;
    switch (place_) {
      case Place::kHeader:
        key_ = std::move(key);
        return Go(Place::kEntry);
      case Place::kMetadata:
        if (header_.metadata.size() == SafeTensorsFile::kMaxTexts) {
          return Fail(kMetadata, absl::StrCat("more than ", SafeTensorsFile::kMaxTexts, " texts"));
        }
        header_.metadata.emplace_back(std::move(key), "");
        return Go(Place::kText);
      default:
        return StartField(key);
    }
  }

  bool end_object() override {
    switch (place_) {
      case Place::kTensor:
        if (!has_dtype_ || !has_shape_ || !has_offsets_) {
          return Fail(key_, "needs dtype, shape and data_offsets");
        }
        return Go(Place::kHeader);
      case Place::kMetadata:
        return Go(Place::kHeader);
      default:
        return Go(Place::kOutside);
    }
  }

  bool start_array(size_t) override {
    if (place_ == Place::kShape) return Go(Place::kDims);
    if (place_ == Place::kOffsets) return Go(Place::kOffsetPair);
    return Unexpected("an array");
  }

  bool end_array() override {
    if (place_ == Place::kOffsetPair && num_offsets_ != 2)
      return Fail(key_, "data_offsets must be two numbers");
    return Go(Place::kTensor);
  }

  bool string(std::string& text) override {
    if (!CountString(text)) return false;
    if (place_ == Place::kText) {
      header_.metadata.back().second = std::move(text);
      return Go(Place::kMetadata);
    }
    if (place_ != Place::kDtype) return Unexpected("a string");
    entry().tensor.type = FindSafeTensorsType(text);
    if (entry().tensor.type == nullptr) return Fail(key_, absl::StrCat("unknown dtype ", Quoted(text)));
    return Go(Place::kTensor);
  }

  bool number_unsigned(uint64_t value) override {
    if (place_ == Place::kDims) {
      std::vector<uint64_t>& shape = entry().tensor.shape;
      if (shape.size() == SafeTensorsFile::kMaxDims) {
        return Fail(key_, absl::StrCat("more than ", SafeTensorsFile::kMaxDims, " dimensions"));
      }
      shape.push_back(value);
      return true;
    }
    if (place_ != Place::kOffsetPair) return Unexpected("a number");
    if (num_offsets_ == 2) return Fail(key_, "data_offsets must be two numbers");
    (num_offsets_++ == 0 ? entry().begin : entry().end) = value;
    return true;
  }

  bool number_integer(int64_t) override { return Unexpected("a negative number"); }
  bool number_float(double, const std::string&) override {
    return Unexpected("a number that is no 64-bit integer");
  }
  bool null() override { return Unexpected("null"); }
  bool boolean(bool) override { return Unexpected("a bool"); }
  bool binary(nlohmann::json::binary_t&) override { return Unexpected("binary data"); }
  bool parse_error(size_t position, const std::string&, const nlohmann::detail::exception&) override {
    return Fail(kHeader, absl::StrCat("is not JSON in UTF-8 at byte ", position));
  }

  // Why it ended; OK after a success.
  const absl::Status& status() const { return status_; }

 private:
  // Where the next event belongs.
  enum class Place {
    kOutside,     // before and behind the whole
    kHeader,      // between its entries
    kEntry,       // behind an entry's name
    kMetadata,    // between texts
    kText,        // behind a text's key
    kTensor,      // between a tensor's fields
    kDtype,       // behind "dtype"
    kShape,       // behind "shape"
    kDims,        // inside its array
    kOffsets,     // behind "data_offsets"
    kOffsetPair,  // inside its array
  };

  SafeTensorEntry& entry() { return header_.entries.back(); }

  static std::string Quoted(std::string_view text) {
    return absl::StrCat("'", std::string(text.substr(0, 64)), "'");
  }

  bool Go(Place place) {
    place_ = place;
    return true;
  }
  bool Fail(std::string_view subject, std::string_view reason) {
    status_ = FileError(file_, subject, reason);
    return false;
  }
  bool Unexpected(std::string_view what) {
    constexpr std::string_view kExpected[] = {"an object", "an entry", "an object", "a text",
                                              "a text",    "a field",  "a string",  "an array",
                                              "a number",  "an array", "a number"};
    return Fail(place_ == Place::kOutside ? kHeader : key_,
                absl::StrCat(std::string(what), " where ", std::string(kExpected[static_cast<int>(place_)]),
                             " must be"));
  }

  bool CountString(const std::string& text) {
    string_bytes_ += text.size();
    if (string_bytes_ <= SafeTensorsFile::kMaxStringsBytes) return true;
    return Fail(kHeader, absl::StrCat("names and texts of more than ", SafeTensorsFile::kMaxStringsBytes,
                                      " bytes in all"));
  }

  bool StartMetadata() {
    if (has_metadata_) return Fail(kMetadata, "comes twice");
    has_metadata_ = true;
    return Go(Place::kMetadata);
  }

  bool StartTensor() {
    if (header_.entries.size() == SafeTensorsFile::kMaxTensors) {
      return Fail(kHeader, absl::StrCat("more than ", SafeTensorsFile::kMaxTensors, " tensors"));
    }
    header_.entries.emplace_back().tensor.name = key_;
    has_dtype_ = has_shape_ = has_offsets_ = false;
    num_offsets_ = 0;
    return Go(Place::kTensor);
  }

  bool StartField(const std::string& field) {
    bool* const seen = field == "dtype"          ? &has_dtype_
                       : field == "shape"        ? &has_shape_
                       : field == "data_offsets" ? &has_offsets_
                                                 : nullptr;
    if (seen == nullptr) return Fail(key_, absl::StrCat("unknown field ", Quoted(field)));
    if (*seen) return Fail(key_, absl::StrCat(field, " comes twice"));
    *seen = true;
    return Go(seen == &has_dtype_ ? Place::kDtype : seen == &has_shape_ ? Place::kShape : Place::kOffsets);
  }

  const std::string_view file_;
  SafeTensorsHeader& header_;
  absl::Status status_;
  Place place_ = Place::kOutside;
  std::string key_;  // of the entry
  uint64_t string_bytes_ = 0;
  bool has_metadata_ = false;
  // Of the tensor that is being read.
  bool has_dtype_ = false, has_shape_ = false, has_offsets_ = false;
  int num_offsets_ = 0;
};

// What nlohmann's parser would take without telling, or hold in memory before it tells.
absl::Status CheckText(std::string_view file, std::string_view json) {
  if (json.empty() || json.front() != '{') return FileError(file, kHeader, "does not begin with '{'");
  // The parser takes a zero for the end.
  if (json.find('\0') != std::string_view::npos) return FileError(file, kHeader, "holds a zero byte");
  uint64_t length = 0;  // of the string around `at`
  bool inside = false;
  for (size_t at = 0; at < json.size(); ++at, ++length) {
    if (json[at] == '"') {
      inside = !inside;
      length = 0;
    } else if (json[at] == '\\' && inside) {
      ++at;
    }
    if (inside && length > SafeTensorsFile::kMaxStringBytes) {
      return FileError(file, kHeader,
                       absl::StrCat("a string of more than ", SafeTensorsFile::kMaxStringBytes, " bytes"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<SafeTensorsHeader> ReadSafeTensorsHeader(std::string_view file, std::string_view json) {
  QANAT_RETURN_IF_ERROR(CheckText(file, json));
  SafeTensorsHeader header;
  HeaderReader reader(file, header);
  if (!nlohmann::json::sax_parse(json.begin(), json.end(), &reader)) return reader.status();
  absl::flat_hash_set<std::string_view> keys;
  for (const auto& text : header.metadata) {
    if (!keys.insert(text.first).second) {
      return FileError(file, kMetadata, absl::StrCat("'", text.first.substr(0, 64), "' comes twice"));
    }
  }
  return header;
}

}  // namespace qanat::model
