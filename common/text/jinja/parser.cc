#include "common/text/jinja/parser.h"

#include <initializer_list>
#include <set>
#include <string>
#include <utility>

#include "common/base/status_macros.h"
#include "common/text/jinja/cat.h"
#include "common/text/jinja/expression_parser.h"
#include "common/text/jinja/functions.h"
#include "common/text/jinja/lexer.h"

namespace qanat::text::jinja {
namespace {

using ast::Body;
using ast::ExprPtr;
using ast::Target;
using StatementNode = absl::StatusOr<ast::Statement::Node>;

// Functions of jinja2 that this interpreter does not have: reading their names is refused.
constexpr std::string_view kMissingFunctions[] = {"cycler", "joiner", "lipsum"};
// What jinja2 gives to a macro beside its parameters.
constexpr std::string_view kMissingMacroNames[] = {"varargs", "kwargs", "caller"};

class Parser {
 public:
  Parser(std::vector<Token> tokens, const Limits& limits)
      : stream_(std::move(tokens)), expressions_(stream_, limits.max_syntax_depth) {}

  absl::StatusOr<Body> Run() {
    QANAT_ASSIGN_OR_RETURN(Body body, ParseBody({}));
    QANAT_RETURN_IF_ERROR(CheckNames());
    return body;
  }

 private:
  using Ends = std::initializer_list<std::string_view>;

  // Statements up to a tag of one of the names, whose name is then the current token; without `ends`, up to
  // the end of the template.
  absl::StatusOr<Body> ParseBody(Ends ends);
  // The same after a tag's expressions; `scoped`: names set inside vanish at its end.
  absl::StatusOr<Body> ParseBlock(Ends ends, bool scoped);
  StatementNode ParseTag();
  StatementNode ParseIf();
  StatementNode ParseFor();
  StatementNode ParseSet();
  StatementNode ParseFilterBlock();
  StatementNode ParseWith();
  StatementNode ParseMacro();
  StatementNode ParseGeneration();
  StatementNode ParseLoopJump(bool is_break);
  absl::Status ParseParameters(ast::Macro& macro);
  absl::StatusOr<Target> ParseTarget(bool with_attributes);
  absl::StatusOr<Target> ParseTargetItem(bool with_attributes);
  absl::StatusOr<std::string> TakeTargetName();
  absl::Status CheckNames() const;
  bool AtAnyName(Ends names) const {
    for (const std::string_view name : names) {
      if (stream_.current().IsName(name)) return true;
    }
    return false;
  }

  TokenStream stream_;
  ExpressionParser expressions_;
  std::set<std::string, std::less<>> bound_names_;  // that the template itself assigns somewhere
  int loops_ = 0;                                   // that a break here could leave
  int scopes_ = 0;                                  // around what is being read
};

absl::StatusOr<Body> Parser::ParseBody(Ends ends) {
  const Nesting nesting(expressions_);
  QANAT_RETURN_IF_ERROR(nesting.status());
  Body body;
  while (true) {
    const int line = stream_.line();
    ast::Statement::Node node;
    if (stream_.At(Token::Type::kEnd)) {
      if (ends.size() == 0) return body;
      return SyntaxError(line, Cat("the template ends before '", *(ends.end() - 1), "'"));
    }
    if (stream_.At(Token::Type::kData)) {
      node = ast::Data{Value::Control(stream_.current().text)};
      stream_.Skip();
    } else if (stream_.At(Token::Type::kVariableBegin)) {
      stream_.Skip();
      QANAT_ASSIGN_OR_RETURN(ExprPtr value, expressions_.ParseTuple());
      QANAT_RETURN_IF_ERROR(stream_.Expect(Token::Type::kVariableEnd));
      node = ast::Print{std::move(value)};
    } else {
      QANAT_RETURN_IF_ERROR(stream_.Expect(Token::Type::kBlockBegin));
      if (AtAnyName(ends)) return body;
      QANAT_ASSIGN_OR_RETURN(node, ParseTag());
      QANAT_RETURN_IF_ERROR(stream_.Expect(Token::Type::kBlockEnd));
    }
    body.push_back(std::make_unique<ast::Statement>(ast::Statement{line, std::move(node)}));
  }
}

absl::StatusOr<Body> Parser::ParseBlock(Ends ends, bool scoped) {
  stream_.SkipOperator(":");
  QANAT_RETURN_IF_ERROR(stream_.Expect(Token::Type::kBlockEnd));
  scopes_ += scoped ? 1 : 0;
  absl::StatusOr<Body> body = ParseBody(ends);
  scopes_ -= scoped ? 1 : 0;
  return body;
}

StatementNode Parser::ParseTag() {
  const int line = stream_.line();
  QANAT_ASSIGN_OR_RETURN(const std::string tag, stream_.TakeName());
  if (tag == "if") return ParseIf();
  if (tag == "for") return ParseFor();
  if (tag == "set") return ParseSet();
  if (tag == "macro") return ParseMacro();
  if (tag == "break" || tag == "continue") return ParseLoopJump(tag == "break");
  if (tag == "filter") return ParseFilterBlock();
  if (tag == "with") return ParseWith();
  if (tag == "generation") return ParseGeneration();
  if (tag == "else" || tag == "elif" || tag.rfind("end", 0) == 0) {
    return SyntaxError(line, Cat("'", tag, "' belongs to no open block"));
  }
  return Unsupported(line, Cat("the tag ", tag));
}

StatementNode Parser::ParseIf() {
  ast::If node;
  while (true) {
    QANAT_ASSIGN_OR_RETURN(ExprPtr condition, expressions_.ParseTuple(/*with_conditional=*/false));
    QANAT_ASSIGN_OR_RETURN(Body body, ParseBlock({"elif", "else", "endif"}, /*scoped=*/false));
    node.branches.emplace_back(std::move(condition), std::move(body));
    if (stream_.SkipName("elif")) continue;
    if (stream_.SkipName("else")) {
      QANAT_ASSIGN_OR_RETURN(node.otherwise, ParseBlock({"endif"}, /*scoped=*/false));
    }
    QANAT_RETURN_IF_ERROR(stream_.ExpectName("endif"));
    return node;
  }
}

StatementNode Parser::ParseFor() {
  ast::For node;
  QANAT_ASSIGN_OR_RETURN(node.target, ParseTarget(/*with_attributes=*/false));
  QANAT_RETURN_IF_ERROR(stream_.ExpectName("in"));
  QANAT_ASSIGN_OR_RETURN(node.items, expressions_.ParseTuple(/*with_conditional=*/false));
  if (stream_.SkipName("if")) {
    QANAT_ASSIGN_OR_RETURN(node.condition, expressions_.ParseExpression());
  }
  if (stream_.current().IsName("recursive")) return Unsupported(stream_.line(), "a recursive for loop");
  ++loops_;
  absl::StatusOr<Body> body = ParseBlock({"else", "endfor"}, /*scoped=*/true);
  --loops_;
  if (!body.ok()) return body.status();
  node.body = *std::move(body);
  if (stream_.SkipName("else")) {
    QANAT_ASSIGN_OR_RETURN(node.otherwise, ParseBlock({"endfor"}, /*scoped=*/true));
  }
  QANAT_RETURN_IF_ERROR(stream_.ExpectName("endfor"));
  return node;
}

StatementNode Parser::ParseSet() {
  QANAT_ASSIGN_OR_RETURN(Target target, ParseTarget(/*with_attributes=*/true));
  if (stream_.SkipOperator("=")) {
    QANAT_ASSIGN_OR_RETURN(ExprPtr value, expressions_.ParseTuple());
    return ast::Set{std::move(target), std::move(value)};
  }
  QANAT_ASSIGN_OR_RETURN(ExprPtr captured, expressions_.MakeCaptured());
  QANAT_ASSIGN_OR_RETURN(ExprPtr value,
                         expressions_.ParseFilters(std::move(captured), /*first_without_pipe=*/false));
  QANAT_ASSIGN_OR_RETURN(Body body, ParseBlock({"endset"}, /*scoped=*/true));
  QANAT_RETURN_IF_ERROR(stream_.ExpectName("endset"));
  return ast::SetBlock{std::move(target), std::move(value), std::move(body)};
}

StatementNode Parser::ParseFilterBlock() {
  QANAT_ASSIGN_OR_RETURN(ExprPtr captured, expressions_.MakeCaptured());
  QANAT_ASSIGN_OR_RETURN(ExprPtr value,
                         expressions_.ParseFilters(std::move(captured), /*first_without_pipe=*/true));
  QANAT_ASSIGN_OR_RETURN(Body body, ParseBlock({"endfilter"}, /*scoped=*/true));
  QANAT_RETURN_IF_ERROR(stream_.ExpectName("endfilter"));
  return ast::FilterBlock{std::move(value), std::move(body)};
}

StatementNode Parser::ParseWith() {
  ast::With node;
  while (!stream_.At(Token::Type::kBlockEnd)) {
    if (!node.bindings.empty()) QANAT_RETURN_IF_ERROR(stream_.ExpectOperator(","));
    QANAT_ASSIGN_OR_RETURN(Target target, ParseTarget(/*with_attributes=*/false));
    QANAT_RETURN_IF_ERROR(stream_.ExpectOperator("="));
    QANAT_ASSIGN_OR_RETURN(ExprPtr value, expressions_.ParseExpression());
    node.bindings.emplace_back(std::move(target), std::move(value));
  }
  QANAT_ASSIGN_OR_RETURN(node.body, ParseBlock({"endwith"}, /*scoped=*/true));
  QANAT_RETURN_IF_ERROR(stream_.ExpectName("endwith"));
  return node;
}

StatementNode Parser::ParseMacro() {
  if (scopes_ > 0) return Unsupported(stream_.line(), "a macro below the top level");
  ast::Macro macro;
  QANAT_ASSIGN_OR_RETURN(macro.name, TakeTargetName());
  QANAT_RETURN_IF_ERROR(ParseParameters(macro));
  const int outer_loops = std::exchange(loops_, 0);
  absl::StatusOr<Body> body = ParseBlock({"endmacro"}, /*scoped=*/true);
  loops_ = outer_loops;
  if (!body.ok()) return body.status();
  macro.body = *std::move(body);
  QANAT_RETURN_IF_ERROR(stream_.ExpectName("endmacro"));
  return macro;
}

absl::Status Parser::ParseParameters(ast::Macro& macro) {
  QANAT_RETURN_IF_ERROR(stream_.ExpectOperator("("));
  while (!stream_.SkipOperator(")")) {
    if (!macro.parameters.empty()) QANAT_RETURN_IF_ERROR(stream_.ExpectOperator(","));
    ast::Macro::Parameter parameter;
    QANAT_ASSIGN_OR_RETURN(parameter.name, TakeTargetName());
    for (const ast::Macro::Parameter& other : macro.parameters) {
      if (other.name == parameter.name) {
        return SyntaxError(stream_.line(), Cat("the parameter '", other.name, "' is there twice"));
      }
    }
    if (stream_.SkipOperator("=")) {
      QANAT_ASSIGN_OR_RETURN(parameter.otherwise, expressions_.ParseExpression());
    } else if (!macro.parameters.empty() && macro.parameters.back().otherwise != nullptr) {
      return SyntaxError(stream_.line(), "a parameter without default follows one that has one");
    }
    macro.parameters.push_back(std::move(parameter));
  }
  return absl::OkStatus();
}

StatementNode Parser::ParseGeneration() {
  const int outer_loops = std::exchange(loops_, 0);
  absl::StatusOr<Body> body = ParseBlock({"endgeneration"}, /*scoped=*/true);
  loops_ = outer_loops;
  if (!body.ok()) return body.status();
  QANAT_RETURN_IF_ERROR(stream_.ExpectName("endgeneration"));
  return ast::Generation{*std::move(body)};
}

StatementNode Parser::ParseLoopJump(bool is_break) {
  if (loops_ == 0)
    return SyntaxError(stream_.line(), is_break ? "break outside a loop" : "continue outside a loop");
  if (is_break) return ast::Break{};
  return ast::Continue{};
}

absl::StatusOr<Target> Parser::ParseTarget(bool with_attributes) {
  Target tuple{Target::Type::kTuple, "", "", {}};
  while (true) {
    QANAT_ASSIGN_OR_RETURN(Target item, ParseTargetItem(with_attributes));
    if (!stream_.SkipOperator(",")) {
      if (tuple.parts.empty()) return item;
      tuple.parts.push_back(std::move(item));
      return tuple;
    }
    tuple.parts.push_back(std::move(item));
    if (stream_.At(Token::Type::kBlockEnd) || stream_.current().IsOperator(")")) return tuple;
  }
}

absl::StatusOr<Target> Parser::ParseTargetItem(bool with_attributes) {
  const Nesting nesting(expressions_);
  QANAT_RETURN_IF_ERROR(nesting.status());
  if (stream_.SkipOperator("(")) {
    QANAT_ASSIGN_OR_RETURN(Target inner, ParseTarget(/*with_attributes=*/false));
    QANAT_RETURN_IF_ERROR(stream_.ExpectOperator(")"));
    return inner;
  }
  if (with_attributes && stream_.next().IsOperator(".")) {
    QANAT_ASSIGN_OR_RETURN(std::string name, stream_.TakeName());
    stream_.Skip();
    QANAT_ASSIGN_OR_RETURN(std::string attribute, stream_.TakeName());
    return Target{Target::Type::kAttribute, std::move(name), std::move(attribute), {}};
  }
  QANAT_ASSIGN_OR_RETURN(std::string name, TakeTargetName());
  return Target{Target::Type::kName, std::move(name), "", {}};
}

// A name that the template gives a value.
absl::StatusOr<std::string> Parser::TakeTargetName() {
  const int line = stream_.line();
  QANAT_ASSIGN_OR_RETURN(std::string name, stream_.TakeName());
  for (const std::string_view constant : {"true", "false", "none", "True", "False", "None"}) {
    if (name == constant) return SyntaxError(line, Cat("'", name, "' cannot be assigned to"));
  }
  if (name == "loop") return Unsupported(line, "a variable named loop");
  bound_names_.insert(name);
  return name;
}

// Names that would only fail when they are reached are refused now.
absl::Status Parser::CheckNames() const {
  for (const auto& [name, line] : expressions_.called_names()) {
    if (!FindFunction(name).has_value() && bound_names_.count(name) == 0) {
      return Unsupported(line, Cat("the function ", name));
    }
  }
  for (const auto& [name, line] : expressions_.read_names()) {
    if (bound_names_.count(name) > 0) continue;
    for (const std::string_view missing : kMissingFunctions) {
      if (name == missing) return Unsupported(line, Cat("the function ", name));
    }
    for (const std::string_view missing : kMissingMacroNames) {
      if (name == missing) return Unsupported(line, Cat("the name ", name));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Body> Parse(std::string_view source, const Limits& limits) {
  if (source.size() > limits.max_template_bytes) {
    return LimitError(
        Cat("the template has ", source.size(), " bytes, more than ", limits.max_template_bytes));
  }
  QANAT_ASSIGN_OR_RETURN(std::vector<Token> tokens, Tokenize(source));
  return Parser(std::move(tokens), limits).Run();
}

}  // namespace qanat::text::jinja
