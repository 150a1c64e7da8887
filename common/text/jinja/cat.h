// absl::StrCat that takes std::string_view, which is not Abseil's own type here.
#pragma once

#include <string>
#include <string_view>
#include <type_traits>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace qanat::text::jinja {

inline absl::string_view CatPiece(std::string_view text) { return {text.data(), text.size()}; }
template <typename Number, typename = std::enable_if_t<std::is_arithmetic_v<Number>>>
Number CatPiece(Number number) {
  return number;
}

template <typename... Pieces>
std::string Cat(const Pieces&... pieces) {
  return absl::StrCat(CatPiece(pieces)...);
}

}  // namespace qanat::text::jinja
