#include "common/text/special_tokens.h"

namespace qanat::text {

SpecialTokens::SpecialTokens(const Vocabulary& vocabulary) : nodes_(1) {
  for (size_t i = 0; i < vocabulary.tokens.size(); ++i) {
    const bool reserved = IsReserved(vocabulary.kinds[i]);
    if (!reserved && vocabulary.kinds[i] != TokenKind::kUserDefined) continue;
    if (vocabulary.tokens[i].empty()) continue;
    Insert(vocabulary.tokens[i], {static_cast<TokenId>(i), reserved});
  }
}

void SpecialTokens::Insert(std::string_view token, Node end) {
  begins_[static_cast<uint8_t>(token[0])] = true;
  uint64_t node = 0;
  for (const char c : token) {
    const auto [child, is_new] = children_.emplace(node << 8 | static_cast<uint8_t>(c), nodes_.size());
    if (is_new) nodes_.emplace_back();
    node = child->second;
  }
  nodes_[node] = end;
}

std::optional<SpecialTokens::Match> SpecialTokens::Find(std::string_view text, size_t from, size_t to,
                                                        size_t reserved_end) const {
  for (size_t begin = from; begin < to; ++begin) {
    if (!begins_[static_cast<uint8_t>(text[begin])]) continue;
    std::optional<Match> longest;
    uint64_t node = 0;
    for (size_t at = begin; at < text.size(); ++at) {
      const auto child = children_.find(node << 8 | static_cast<uint8_t>(text[at]));
      if (child == children_.end()) break;
      node = child->second;
      const Node& end = nodes_[node];
      if (end.id >= 0 && (!end.reserved || at < reserved_end)) longest = Match{begin, at + 1, end.id};
    }
    if (longest) return longest;
  }
  return std::nullopt;
}

}  // namespace qanat::text
