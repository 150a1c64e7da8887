#include "common/text/jinja/expression_parser.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "common/base/status_macros.h"
#include "common/text/jinja/ast_depth.h"
#include "common/text/jinja/cat.h"

namespace qanat::text::jinja {
namespace {

using ast::Deepest;
using ast::ExprPtr;

constexpr std::string_view kLoopAttributes[] = {"index", "index0",   "revindex", "revindex0", "first",
                                                "last",  "previtem", "nextitem", "length"};

template <typename Operation, size_t n>
std::optional<Operation> OperationOf(const Token& token,
                                     const std::array<std::pair<std::string_view, Operation>, n>& table) {
  for (const auto& [sign, operation] : table) {
    if (token.IsOperator(sign)) return operation;
  }
  return std::nullopt;
}

constexpr std::array<std::pair<std::string_view, Comparison>, 6> kComparisons = {{
    {"==", Comparison::kEqual},
    {"!=", Comparison::kNotEqual},
    {"<", Comparison::kLess},
    {"<=", Comparison::kLessEqual},
    {">", Comparison::kGreater},
    {">=", Comparison::kGreaterEqual},
}};
constexpr std::array<std::pair<std::string_view, Arithmetic>, 2> kSums = {
    {{"+", Arithmetic::kAdd}, {"-", Arithmetic::kSubtract}}};
constexpr std::array<std::pair<std::string_view, Arithmetic>, 4> kProducts = {
    {{"*", Arithmetic::kMultiply},
     {"/", Arithmetic::kDivide},
     {"//", Arithmetic::kFloorDivide},
     {"%", Arithmetic::kModulo}}};

}  // namespace

absl::Status TokenStream::Unexpected() const {
  switch (current().type) {
    case Token::Type::kName:
    case Token::Type::kOperator:
    case Token::Type::kInteger:
    case Token::Type::kFloat:
      return SyntaxError(line(), Cat("unexpected '", current().text, "'"));
    case Token::Type::kString:
      return SyntaxError(line(), "unexpected string");
    case Token::Type::kEnd:
      return SyntaxError(line(), "unexpected end of the template");
    default:
      return SyntaxError(line(), "unexpected end of a tag");
  }
}

absl::Status TokenStream::ExpectOperator(std::string_view sign) {
  return SkipOperator(sign) ? absl::OkStatus() : Unexpected();
}

absl::Status TokenStream::ExpectName(std::string_view name) {
  return SkipName(name) ? absl::OkStatus() : Unexpected();
}

absl::Status TokenStream::Expect(Token::Type type) {
  return SkipIf(At(type)) ? absl::OkStatus() : Unexpected();
}

absl::StatusOr<std::string> TokenStream::TakeName() {
  if (!At(Token::Type::kName)) return Unexpected();
  std::string name = current().text;
  Skip();
  return name;
}

absl::Status ExpressionParser::Enter() {
  return ++depth_ > max_depth_ ? TooDeep(stream_.line()) : absl::OkStatus();
}

absl::Status ExpressionParser::TooDeep(int line) const {
  return LimitError(Cat("line ", line, ": nested more than ", max_depth_, " deep"));
}

ExpressionParser::Result ExpressionParser::Make(int line, int deepest, ast::Expr::Node node) {
  if (deepest >= max_depth_) return TooDeep(line);
  return std::make_unique<ast::Expr>(ast::Expr{line, deepest + 1, std::move(node)});
}

ExpressionParser::Result ExpressionParser::ParseExpression(bool with_conditional) {
  const Nesting nesting(*this);
  QANAT_RETURN_IF_ERROR(nesting.status());
  return with_conditional ? ParseConditional() : ParseOr();
}

ExpressionParser::Result ExpressionParser::ParseConditional() {
  QANAT_ASSIGN_OR_RETURN(ExprPtr then, ParseOr());
  while (stream_.current().IsName("if")) {
    const int line = stream_.line();
    stream_.Skip();
    QANAT_ASSIGN_OR_RETURN(ExprPtr condition, ParseOr());
    ExprPtr otherwise;
    if (stream_.SkipName("else")) {
      QANAT_ASSIGN_OR_RETURN(otherwise, ParseExpression());
    }
    const int deepest = Deepest(condition, then, otherwise);
    QANAT_ASSIGN_OR_RETURN(
        then,
        Make(line, deepest, ast::Conditional{std::move(condition), std::move(then), std::move(otherwise)}));
  }
  return then;
}

ExpressionParser::Result ExpressionParser::ParseOr() {
  QANAT_ASSIGN_OR_RETURN(ExprPtr left, ParseAnd());
  while (stream_.SkipName("or")) {
    QANAT_ASSIGN_OR_RETURN(ExprPtr right, ParseAnd());
    const int deepest = Deepest(left, right);
    QANAT_ASSIGN_OR_RETURN(
        left, Make(stream_.line(), deepest, ast::Logic{false, std::move(left), std::move(right)}));
  }
  return left;
}

ExpressionParser::Result ExpressionParser::ParseAnd() {
  QANAT_ASSIGN_OR_RETURN(ExprPtr left, ParseNot());
  while (stream_.SkipName("and")) {
    QANAT_ASSIGN_OR_RETURN(ExprPtr right, ParseNot());
    const int deepest = Deepest(left, right);
    QANAT_ASSIGN_OR_RETURN(
        left, Make(stream_.line(), deepest, ast::Logic{true, std::move(left), std::move(right)}));
  }
  return left;
}

ExpressionParser::Result ExpressionParser::ParseNot() {
  const int line = stream_.line();
  if (!stream_.SkipName("not")) return ParseCompare();
  const Nesting nesting(*this);
  QANAT_RETURN_IF_ERROR(nesting.status());
  QANAT_ASSIGN_OR_RETURN(ExprPtr operand, ParseNot());
  const int deepest = Deepest(operand);
  return Make(line, deepest, ast::Not{std::move(operand)});
}

ExpressionParser::Result ExpressionParser::ParseCompare() {
  const int line = stream_.line();
  QANAT_ASSIGN_OR_RETURN(ExprPtr first, ParseSum());
  std::vector<std::pair<Comparison, ExprPtr>> rest;
  while (true) {
    std::optional<Comparison> comparison = OperationOf(stream_.current(), kComparisons);
    if (comparison.has_value()) {
      stream_.Skip();
    } else if (stream_.SkipName("in")) {
      comparison = Comparison::kIn;
    } else if (stream_.current().IsName("not") && stream_.next().IsName("in")) {
      stream_.Skip();
      stream_.Skip();
      comparison = Comparison::kNotIn;
    } else {
      break;
    }
    QANAT_ASSIGN_OR_RETURN(ExprPtr operand, ParseSum());
    rest.emplace_back(*comparison, std::move(operand));
  }
  if (rest.empty()) return first;
  const int deepest = Deepest(first, rest);
  return Make(line, deepest, ast::Comparisons{std::move(first), std::move(rest)});
}

ExpressionParser::Result ExpressionParser::ParseSum() {
  QANAT_ASSIGN_OR_RETURN(ExprPtr left, ParseConcat());
  while (const std::optional<Arithmetic> operation = OperationOf(stream_.current(), kSums)) {
    const int line = stream_.line();
    stream_.Skip();
    QANAT_ASSIGN_OR_RETURN(ExprPtr right, ParseConcat());
    const int deepest = Deepest(left, right);
    QANAT_ASSIGN_OR_RETURN(left,
                           Make(line, deepest, ast::Binary{*operation, std::move(left), std::move(right)}));
  }
  return left;
}

ExpressionParser::Result ExpressionParser::ParseConcat() {
  const int line = stream_.line();
  std::vector<ExprPtr> parts;
  do {
    QANAT_ASSIGN_OR_RETURN(ExprPtr part, ParseProduct());
    parts.push_back(std::move(part));
  } while (stream_.SkipOperator("~"));
  if (parts.size() == 1) return std::move(parts[0]);
  const int deepest = Deepest(parts);
  return Make(line, deepest, ast::Concat{std::move(parts)});
}

ExpressionParser::Result ExpressionParser::ParseProduct() {
  QANAT_ASSIGN_OR_RETURN(ExprPtr left, ParsePower());
  while (const std::optional<Arithmetic> operation = OperationOf(stream_.current(), kProducts)) {
    const int line = stream_.line();
    stream_.Skip();
    QANAT_ASSIGN_OR_RETURN(ExprPtr right, ParsePower());
    const int deepest = Deepest(left, right);
    QANAT_ASSIGN_OR_RETURN(left,
                           Make(line, deepest, ast::Binary{*operation, std::move(left), std::move(right)}));
  }
  return left;
}

// Unlike Python's, jinja2's power binds from the left.
ExpressionParser::Result ExpressionParser::ParsePower() {
  QANAT_ASSIGN_OR_RETURN(ExprPtr left, ParseUnary(/*with_filters=*/true));
  while (stream_.current().IsOperator("**")) {
    const int line = stream_.line();
    stream_.Skip();
    QANAT_ASSIGN_OR_RETURN(ExprPtr right, ParseUnary(/*with_filters=*/true));
    const int deepest = Deepest(left, right);
    QANAT_ASSIGN_OR_RETURN(
        left, Make(line, deepest, ast::Binary{Arithmetic::kPower, std::move(left), std::move(right)}));
  }
  return left;
}

ExpressionParser::Result ExpressionParser::ParseUnary(bool with_filters) {
  const bool is_signed = stream_.current().IsOperator("-") || stream_.current().IsOperator("+");
  QANAT_ASSIGN_OR_RETURN(ExprPtr node, is_signed ? ParseSigned() : ParsePrimary());
  QANAT_ASSIGN_OR_RETURN(node, ParsePostfix(std::move(node)));
  return with_filters ? ParseFiltersAndTests(std::move(node)) : std::move(node);
}

ExpressionParser::Result ExpressionParser::ParseSigned() {
  const Nesting nesting(*this);
  QANAT_RETURN_IF_ERROR(nesting.status());
  const int line = stream_.line();
  const bool negative = stream_.current().IsOperator("-");
  stream_.Skip();
  QANAT_ASSIGN_OR_RETURN(ExprPtr operand, ParseUnary(/*with_filters=*/false));
  const int deepest = Deepest(operand);
  return Make(line, deepest, ast::Sign{negative, std::move(operand)});
}

ExpressionParser::Result ExpressionParser::ParsePrimary() {
  const Token& token = stream_.current();
  switch (token.type) {
    case Token::Type::kName:
      return ParseName();
    case Token::Type::kString:
      return ParseString();
    case Token::Type::kInteger:
      stream_.Skip();
      return Make(token.line, 0, ast::Constant{Value::Int(token.integer)});
    case Token::Type::kFloat:
      stream_.Skip();
      return Make(token.line, 0, ast::Constant{Value::Float(token.real)});
    default:
      break;
  }
  if (stream_.SkipOperator("(")) {
    QANAT_ASSIGN_OR_RETURN(ExprPtr inner, ParseTuple(/*with_conditional=*/true, /*in_parentheses=*/true));
    QANAT_RETURN_IF_ERROR(stream_.ExpectOperator(")"));
    return inner;
  }
  if (token.IsOperator("[")) return ParseList();
  if (token.IsOperator("{")) return ParseDict();
  return stream_.Unexpected();
}

ExpressionParser::Result ExpressionParser::ParseName() {
  const int line = stream_.line();
  const std::string name = stream_.current().text;
  stream_.Skip();
  if (name == "true" || name == "True") return Make(line, 0, ast::Constant{Value::Bool(true)});
  if (name == "false" || name == "False") return Make(line, 0, ast::Constant{Value::Bool(false)});
  if (name == "none" || name == "None") return Make(line, 0, ast::Constant{Value::None()});
  if (name == "self" || name == "super") return Unsupported(line, Cat("'", name, "'"));
  if (name != "loop") {
    (stream_.current().IsOperator("(") ? called_names_ : read_names_).try_emplace(name, line);
    return Make(line, 0, ast::Name{name});
  }
  if (stream_.current().IsName("is")) return Make(line, 0, ast::LoopDefined{});
  if (!stream_.SkipOperator(".")) return Unsupported(line, "the loop used as a value");
  QANAT_ASSIGN_OR_RETURN(std::string attribute, stream_.TakeName());
  const auto* known = std::find(std::begin(kLoopAttributes), std::end(kLoopAttributes), attribute);
  if (known == std::end(kLoopAttributes)) return Unsupported(line, Cat("loop.", attribute));
  return Make(line, 0, ast::LoopAttribute{std::move(attribute)});
}

ExpressionParser::Result ExpressionParser::ParseString() {
  const int line = stream_.line();
  std::string text;
  while (stream_.At(Token::Type::kString)) {
    text += stream_.current().text;
    stream_.Skip();
  }
  return Make(line, 0, ast::Constant{Value::Control(std::move(text))});
}

ExpressionParser::Result ExpressionParser::ParseTuple(bool with_conditional, bool in_parentheses) {
  const auto at_end = [&] {
    return stream_.At(Token::Type::kVariableEnd) || stream_.At(Token::Type::kBlockEnd) ||
           stream_.current().IsOperator(")");
  };
  const int line = stream_.line();
  std::vector<ExprPtr> items;
  bool is_tuple = false;
  while (!at_end()) {
    QANAT_ASSIGN_OR_RETURN(ExprPtr item, ParseExpression(with_conditional));
    items.push_back(std::move(item));
    if (!stream_.SkipOperator(",")) break;
    is_tuple = true;
  }
  if (!is_tuple && items.size() == 1) return std::move(items[0]);
  if (!is_tuple && !in_parentheses) return stream_.Unexpected();
  const int deepest = Deepest(items);
  return Make(line, deepest, ast::Sequence{List::Type::kTuple, std::move(items)});
}

ExpressionParser::Result ExpressionParser::ParseList() {
  const int line = stream_.line();
  stream_.Skip();
  std::vector<ExprPtr> items;
  while (!stream_.SkipOperator("]")) {
    QANAT_ASSIGN_OR_RETURN(ExprPtr item, ParseExpression());
    items.push_back(std::move(item));
    if (!stream_.current().IsOperator("]")) QANAT_RETURN_IF_ERROR(stream_.ExpectOperator(","));
  }
  const int deepest = Deepest(items);
  return Make(line, deepest, ast::Sequence{List::Type::kList, std::move(items)});
}

ExpressionParser::Result ExpressionParser::ParseDict() {
  const int line = stream_.line();
  stream_.Skip();
  std::vector<std::pair<ExprPtr, ExprPtr>> entries;
  while (!stream_.SkipOperator("}")) {
    QANAT_ASSIGN_OR_RETURN(ExprPtr key, ParseExpression());
    QANAT_RETURN_IF_ERROR(stream_.ExpectOperator(":"));
    QANAT_ASSIGN_OR_RETURN(ExprPtr value, ParseExpression());
    entries.emplace_back(std::move(key), std::move(value));
    if (!stream_.current().IsOperator("}")) QANAT_RETURN_IF_ERROR(stream_.ExpectOperator(","));
  }
  const int deepest = Deepest(entries);
  return Make(line, deepest, ast::DictLiteral{std::move(entries)});
}

}  // namespace qanat::text::jinja
