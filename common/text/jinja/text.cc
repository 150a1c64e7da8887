#include "common/text/jinja/text.h"

#include <algorithm>

#include "common/base/check.h"

namespace qanat::text::jinja {

Text::Text(std::string bytes, bool control) : bytes_(std::move(bytes)) {
  if (!bytes_.empty()) runs_.push_back({bytes_.size(), control});
}

void Text::Append(std::string_view bytes, bool control) {
  if (bytes.empty()) return;
  bytes_.append(bytes);
  if (!runs_.empty() && runs_.back().control == control) {
    runs_.back().end = bytes_.size();
  } else {
    runs_.push_back({bytes_.size(), control});
  }
}

void Text::AppendSlice(const Text& other, size_t begin, size_t end) {
  QANAT_DCHECK(begin <= end && end <= other.size() && &other != this);
  const std::string_view bytes = other.bytes_;
  if (begin == end) return;
  for (auto run = other.RunAt(begin); begin < end; ++run) {
    const size_t stop = std::min(run->end, end);
    Append(bytes.substr(begin, stop - begin), run->control);
    begin = stop;
  }
}

Text Text::Slice(size_t begin, size_t end) const {
  Text slice;
  slice.AppendSlice(*this, begin, end);
  return slice;
}

bool Text::IsControl(size_t at) const { return RunAt(at)->control; }

std::vector<Text::Run>::const_iterator Text::RunAt(size_t at) const {
  QANAT_DCHECK(at < size());
  return std::upper_bound(runs_.begin(), runs_.end(), at,
                          [](size_t position, const Run& run) { return position < run.end; });
}

void Text::CheckInvariants() const {
  QANAT_CHECK(runs_.empty() == bytes_.empty()) << "invariant 1";
  QANAT_CHECK(runs_.empty() || runs_.back().end == bytes_.size()) << "invariant 1";
  for (size_t i = 1; i < runs_.size(); ++i) {
    QANAT_CHECK(runs_[i - 1].end < runs_[i].end) << "invariant 1";
    QANAT_CHECK(runs_[i - 1].control != runs_[i].control) << "invariant 2";
  }
}

}  // namespace qanat::text::jinja
