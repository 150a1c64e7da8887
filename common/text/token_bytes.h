// The bytes that tokens stand for.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/ids.h"

namespace qanat::text {

// One string a token, one behind the other.
// Owns them; views stay valid until the next Add.
// Immutable once filled: then any number of threads may use one.
// No errors.
class TokenBytes {
 public:
  // Of the next token.
  void Add(std::string_view bytes) {
    bytes_.append(bytes);
    ends_.push_back(bytes_.size());
  }

  // REQUIRES: 0 <= id < the number of tokens added.
  std::string_view operator[](TokenId id) const {
    const size_t i = static_cast<size_t>(id);
    const size_t begin = i == 0 ? 0 : ends_[i - 1];
    return std::string_view(bytes_).substr(begin, ends_[i] - begin);
  }

 private:
  std::string bytes_;
  std::vector<size_t> ends_;
};

}  // namespace qanat::text
