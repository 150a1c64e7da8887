#include "common/text/jinja/search.h"

#include <cstring>
#include <vector>

#include "common/base/check.h"

namespace qanat::text::jinja {

size_t FindText(std::string_view text, std::string_view needle, size_t from) {
  QANAT_DCHECK(from <= text.size());
  if (needle.empty()) return from;
  // std::string_view::find is quadratic on "aaa..."; memmem is linear.
  const void* found = memmem(text.data() + from, text.size() - from, needle.data(), needle.size());
  if (found == nullptr) return std::string_view::npos;
  return static_cast<size_t>(static_cast<const char*>(found) - text.data());
}

// Knuth, Morris and Pratt on both texts read from their ends.
size_t FindTextBackwards(std::string_view text, std::string_view needle, size_t end) {
  QANAT_DCHECK(end <= text.size());
  const size_t n = needle.size();
  if (n == 0) return end;
  const auto last = [n, needle](size_t i) { return needle[n - 1 - i]; };
  // border[i]: the longest proper prefix of the first i characters that is also their end.
  std::vector<size_t> border(n + 1, 0);
  for (size_t i = 1, k = 0; i < n; ++i) {
    while (k > 0 && last(i) != last(k)) k = border[k];
    if (last(i) == last(k)) ++k;
    border[i + 1] = k;
  }
  size_t matched = 0;
  for (size_t at = end; at > 0; --at) {
    while (matched > 0 && text[at - 1] != last(matched)) matched = border[matched];
    if (text[at - 1] == last(matched)) ++matched;
    if (matched == n) return at - 1;
  }
  return std::string_view::npos;
}

}  // namespace qanat::text::jinja
