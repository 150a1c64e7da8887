#include "common/text/stop_matcher.h"

#include <algorithm>

#include "common/base/check.h"

namespace qanat::text {

StopMatcher::StopMatcher(std::vector<std::string> stops, bool include_stop) : include_stop_(include_stop) {
  patterns_.reserve(stops.size());
  for (std::string& stop : stops) patterns_.emplace_back(std::move(stop));
}

StopMatcher::Pattern::Pattern(std::string stop) : text_(std::move(stop)), border_(text_.size(), 0) {
  QANAT_CHECK(!text_.empty()) << "an empty stop string would match everywhere";
  for (size_t i = 1, border = 0; i < text_.size(); ++i) {
    while (border > 0 && text_[i] != text_[border]) border = border_[border - 1];
    if (text_[i] == text_[border]) ++border;
    border_[i] = border;
  }
}

bool StopMatcher::Pattern::Advance(char byte) {
  while (prefix_ > 0 && text_[prefix_] != byte) prefix_ = border_[prefix_ - 1];
  if (text_[prefix_] == byte) ++prefix_;
  return prefix_ == text_.size();
}

StopMatcher::Result StopMatcher::Feed(std::string_view text, bool may_end) {
  if (matched_) return {"", matched_};
  const size_t held = held_.size();
  held_.append(text);
  for (size_t i = held; i < held_.size(); ++i) {
    matched_ = Advance(held_[i], may_end);
    if (matched_) return {Cut(i + 1), matched_};
  }
  size_t keep = 0;
  for (const Pattern& pattern : patterns_) keep = std::max(keep, pattern.prefix());
  return {Release(held_.size() - keep), std::nullopt};
}

std::string StopMatcher::Flush() { return Release(held_.size()); }

std::optional<int> StopMatcher::Advance(char byte, bool may_end) {
  std::optional<int> longest;
  for (size_t i = 0; i < patterns_.size(); ++i) {
    if (!patterns_[i].Advance(byte)) continue;
    if (!may_end) {
      patterns_[i].Ignore();
      continue;
    }
    if (!longest || patterns_[i].size() > patterns_[*longest].size()) longest = static_cast<int>(i);
  }
  return longest;
}

std::string StopMatcher::Cut(size_t end) {
  std::string out = Release(include_stop_ ? end : end - patterns_[*matched_].size());
  held_.clear();
  return out;
}

std::string StopMatcher::Release(size_t bytes) {
  std::string out = held_.substr(0, bytes);
  held_.erase(0, bytes);
  return out;
}

}  // namespace qanat::text
