// How deep the parts of an expression are nested: the parser bounds it, so that nothing that walks over the
// tree later can exhaust the stack.
#pragma once

#include <algorithm>
#include <type_traits>
#include <utility>
#include <vector>

#include "common/text/jinja/ast.h"

namespace qanat::text::jinja::ast {

inline int Deepest(const ExprPtr& expr) { return expr == nullptr ? 0 : expr->depth; }

inline int Deepest(const std::vector<ExprPtr>& exprs) {
  int deepest = 0;
  for (const ExprPtr& expr : exprs) deepest = std::max(deepest, Deepest(expr));
  return deepest;
}

template <typename First>
int Deepest(const std::vector<std::pair<First, ExprPtr>>& pairs) {
  int deepest = 0;
  for (const auto& [first, second] : pairs) {
    deepest = std::max(deepest, Deepest(second));
    if constexpr (std::is_same_v<First, ExprPtr>) deepest = std::max(deepest, Deepest(first));
  }
  return deepest;
}

inline int Deepest(const CallArguments& arguments) {
  return std::max(Deepest(arguments.positional), Deepest(arguments.named));
}

template <typename First, typename Second, typename... Rest>
int Deepest(const First& first, const Second& second, const Rest&... rest) {
  return std::max(Deepest(first), Deepest(second, rest...));
}

}  // namespace qanat::text::jinja::ast
