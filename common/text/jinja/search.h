// Finding text in text, in linear time whatever the two are.
#pragma once

#include <cstddef>
#include <string_view>

namespace qanat::text::jinja {

// Where `needle` first begins at or after `from`, or npos. REQUIRES: from <= text.size().
size_t FindText(std::string_view text, std::string_view needle, size_t from);

// Where the last `needle` that ends at or before `end` begins, or npos. REQUIRES: end <= text.size().
size_t FindTextBackwards(std::string_view text, std::string_view needle, size_t end);

}  // namespace qanat::text::jinja
