#include "common/base/units.h"

#include <charconv>
#include <cmath>
#include <limits>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace qanat {
namespace {

struct Unit {
  std::string_view name;
  double factor;
};

constexpr Unit kDurations[] = {{"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}, {"m", 60e9}, {"h", 3600e9}};
constexpr Unit kSizes[] = {
    {"", 1}, {"K", 1024.0}, {"M", 1048576.0}, {"G", 1073741824.0}, {"T", 1099511627776.0}};

absl::Status Malformed(std::string_view text, const char* expected) {
  return absl::InvalidArgumentError(
      absl::StrCat("'", absl::string_view(text.data(), text.size()), "' is not ", expected));
}

// The value of `text` in the base unit; negative when it cannot be read.
template <size_t N>
double Parse(std::string_view text, const Unit (&units)[N]) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || !std::isfinite(number)) return -1;
  const std::string_view name = text.substr(end - text.data());
  if (name.empty() && number == 0) return 0;
  for (const Unit& unit : units) {
    if (unit.name == name) return number * unit.factor;
  }
  return -1;
}

}  // namespace

absl::StatusOr<Duration> ParseDuration(std::string_view text) {
  const double ns = Parse(text, kDurations);
  if (!(ns >= 0 && ns < 9.2e18)) return Malformed(text, "a duration such as 250ms, 5s or 10m");
  return Duration(static_cast<int64_t>(std::llround(ns)));
}

std::string FormatDuration(Duration duration) {
  int64_t count = duration.count();
  if (count == 0) return "0s";
  const Unit* best = &kDurations[0];
  for (const Unit& unit : kDurations) {
    if (count % static_cast<int64_t>(unit.factor) == 0) best = &unit;
  }
  return absl::StrCat(count / static_cast<int64_t>(best->factor),
                      absl::string_view(best->name.data(), best->name.size()));
}

absl::StatusOr<int64_t> ParseSize(std::string_view text) {
  const double bytes = Parse(text, kSizes);
  if (!(bytes >= 0 && bytes < 9.2e18) || bytes != std::floor(bytes)) {
    return Malformed(text, "a whole number, or one followed by K, M, G or T");
  }
  return static_cast<int64_t>(bytes);
}

}  // namespace qanat
