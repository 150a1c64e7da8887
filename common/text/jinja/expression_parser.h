// The expression half of the parser.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/text/jinja/ast.h"
#include "common/text/jinja/lexer.h"

namespace qanat::text::jinja {

// Walks over tokens.
class TokenStream {
 public:
  // REQUIRES: the last token, and only it, is kEnd.
  explicit TokenStream(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  const Token& current() const { return tokens_[at_]; }
  const Token& next() const { return tokens_[at_ + 1 < tokens_.size() ? at_ + 1 : at_]; }
  int line() const { return current().line; }
  void Skip() {
    if (at_ + 1 < tokens_.size()) ++at_;
  }
  bool SkipName(std::string_view name) { return SkipIf(current().IsName(name)); }
  bool SkipOperator(std::string_view sign) { return SkipIf(current().IsOperator(sign)); }
  bool At(Token::Type type) const { return current().type == type; }

  absl::Status ExpectOperator(std::string_view sign);
  absl::Status ExpectName(std::string_view name);
  absl::Status Expect(Token::Type type);
  absl::StatusOr<std::string> TakeName();
  // "unexpected <current token>".
  absl::Status Unexpected() const;

 private:
  bool SkipIf(bool condition) {
    if (condition) Skip();
    return condition;
  }

  const std::vector<Token> tokens_;
  size_t at_ = 0;
};

// jinja2's grammar of expressions, by recursive descent, one method a level of precedence. Leaves the stream
// after what it read. Errors: as Tokenize's, or a limit. Bounds both its own recursion and the depth of the
// tree that it builds.
class ExpressionParser {
 public:
  // `stream` outlives this object.
  ExpressionParser(TokenStream& stream, int max_depth) : stream_(stream), max_depth_(max_depth) {}

  absl::StatusOr<ast::ExprPtr> ParseExpression(bool with_conditional = true);
  // One expression, or several with commas between as a tuple. Ends before a tag's end or ')'.
  // `in_parentheses`: nothing at all is the empty tuple.
  absl::StatusOr<ast::ExprPtr> ParseTuple(bool with_conditional = true, bool in_parentheses = false);
  // "| f | g(x)" applied to `input`. With `first_without_pipe`, the first filter has no '|' before it.
  absl::StatusOr<ast::ExprPtr> ParseFilters(ast::ExprPtr input, bool first_without_pipe);
  // The text that a set or filter block has rendered.
  absl::StatusOr<ast::ExprPtr> MakeCaptured() { return Make(stream_.line(), 0, ast::Captured{}); }

  // Depth of what is being read; the statement parser counts its blocks here too.
  absl::Status Enter();
  void Leave() { --depth_; }

  // Names that were called or read, with the line of the first use.
  const std::map<std::string, int>& called_names() const { return called_names_; }
  const std::map<std::string, int>& read_names() const { return read_names_; }

 private:
  using Result = absl::StatusOr<ast::ExprPtr>;

  Result ParseConditional();
  Result ParseOr();
  Result ParseAnd();
  Result ParseNot();
  Result ParseCompare();
  Result ParseSum();
  Result ParseConcat();
  Result ParseProduct();
  Result ParsePower();
  Result ParseUnary(bool with_filters);
  Result ParseSigned();
  Result ParsePrimary();
  Result ParseName();
  Result ParseString();
  Result ParseList();
  Result ParseDict();
  Result ParsePostfix(ast::ExprPtr object);
  Result ParseSubscript(ast::ExprPtr object);
  Result ParseAttribute(ast::ExprPtr object);
  Result ParseCall(ast::ExprPtr callee);
  Result ParseTest(ast::ExprPtr input);
  Result ParseFiltersAndTests(ast::ExprPtr input);
  absl::StatusOr<ast::CallArguments> ParseArguments();
  absl::StatusOr<ast::CallArguments> ParseTestArguments();
  absl::StatusOr<std::string> ParseDottedName();
  // A limit error when the tree gets too deep. `deepest`: of the parts of `node`.
  Result Make(int line, int deepest, ast::Expr::Node node);
  absl::Status TooDeep(int line) const;

  TokenStream& stream_;
  const int max_depth_;
  int depth_ = 0;
  std::map<std::string, int> called_names_;
  std::map<std::string, int> read_names_;
};

// Counts one level of nesting as long as it lives. The status is the limit error, if any.
class Nesting {
 public:
  explicit Nesting(ExpressionParser& parser) : parser_(parser), status_(parser.Enter()) {}
  ~Nesting() { parser_.Leave(); }
  Nesting(const Nesting&) = delete;
  Nesting& operator=(const Nesting&) = delete;
  const absl::Status& status() const { return status_; }

 private:
  ExpressionParser& parser_;
  const absl::Status status_;
};

}  // namespace qanat::text::jinja
