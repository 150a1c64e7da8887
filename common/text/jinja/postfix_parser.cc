// The second half of ExpressionParser: what may follow an operand, that is attributes, subscripts, calls,
// filters and tests.
#include <utility>

#include "common/base/status_macros.h"
#include "common/text/jinja/ast_depth.h"
#include "common/text/jinja/cat.h"
#include "common/text/jinja/expression_parser.h"
#include "common/text/jinja/methods.h"

namespace qanat::text::jinja {

using ast::ExprPtr;

ExpressionParser::Result ExpressionParser::ParsePostfix(ExprPtr object) {
  while (true) {
    if (stream_.current().IsOperator(".")) {
      QANAT_ASSIGN_OR_RETURN(object, ParseAttribute(std::move(object)));
    } else if (stream_.current().IsOperator("[")) {
      QANAT_ASSIGN_OR_RETURN(object, ParseSubscript(std::move(object)));
    } else if (stream_.current().IsOperator("(")) {
      QANAT_ASSIGN_OR_RETURN(object, ParseCall(std::move(object)));
    } else {
      return object;
    }
  }
}

ExpressionParser::Result ExpressionParser::ParseAttribute(ExprPtr object) {
  const int line = stream_.line();
  stream_.Skip();
  const Token& token = stream_.current();
  const int deepest = ast::Deepest(object);
  if (token.type == Token::Type::kInteger) {
    stream_.Skip();
    QANAT_ASSIGN_OR_RETURN(ExprPtr index, Make(token.line, 0, ast::Constant{Value::Int(token.integer)}));
    return Make(line, deepest, ast::GetItem{std::move(object), std::move(index)});
  }
  QANAT_ASSIGN_OR_RETURN(std::string name, stream_.TakeName());
  if (stream_.current().IsOperator("(") && !IsSupportedMethod(name))
    return Unsupported(line, Cat("the method ", name));
  return Make(line, deepest, ast::GetAttribute{std::move(object), std::move(name)});
}

ExpressionParser::Result ExpressionParser::ParseSubscript(ExprPtr object) {
  const int line = stream_.line();
  stream_.Skip();
  const auto at_bound_end = [&] {
    return stream_.current().IsOperator(":") || stream_.current().IsOperator("]");
  };
  ExprPtr bounds[3];  // start, stop, step
  size_t colons = 0;
  while (true) {
    if (!at_bound_end()) {
      QANAT_ASSIGN_OR_RETURN(bounds[colons], ParseExpression());
    }
    if (colons == 2 || !stream_.SkipOperator(":")) break;
    ++colons;
  }
  if (stream_.current().IsOperator(",")) return Unsupported(line, "a subscript with commas");
  QANAT_RETURN_IF_ERROR(stream_.ExpectOperator("]"));
  auto& [start, stop, step] = bounds;
  const int deepest = ast::Deepest(object, start, stop, step);
  if (colons > 0) {
    return Make(line, deepest,
                ast::GetSlice{std::move(object), std::move(start), std::move(stop), std::move(step)});
  }
  if (start == nullptr) return Unsupported(line, "an empty subscript");
  return Make(line, deepest, ast::GetItem{std::move(object), std::move(start)});
}

ExpressionParser::Result ExpressionParser::ParseCall(ExprPtr callee) {
  const int line = stream_.line();
  QANAT_ASSIGN_OR_RETURN(ast::CallArguments arguments, ParseArguments());
  const int deepest = ast::Deepest(callee, arguments);
  return Make(line, deepest, ast::Call{std::move(callee), std::move(arguments)});
}

absl::StatusOr<ast::CallArguments> ExpressionParser::ParseArguments() {
  const int line = stream_.line();
  QANAT_RETURN_IF_ERROR(stream_.ExpectOperator("("));
  ast::CallArguments arguments;
  while (!stream_.SkipOperator(")")) {
    if (stream_.current().IsOperator("*") || stream_.current().IsOperator("**")) {
      return Unsupported(line, Cat(stream_.current().text, " in a call"));
    }
    if (stream_.At(Token::Type::kName) && stream_.next().IsOperator("=")) {
      QANAT_ASSIGN_OR_RETURN(std::string name, stream_.TakeName());
      stream_.Skip();
      for (const auto& [other, value] : arguments.named) {
        if (other == name) return SyntaxError(line, Cat("the argument '", name, "' is given twice"));
      }
      QANAT_ASSIGN_OR_RETURN(ExprPtr value, ParseExpression());
      arguments.named.emplace_back(std::move(name), std::move(value));
    } else {
      if (!arguments.named.empty()) return SyntaxError(line, "a positional argument follows a named one");
      QANAT_ASSIGN_OR_RETURN(ExprPtr value, ParseExpression());
      arguments.positional.push_back(std::move(value));
    }
    if (!stream_.current().IsOperator(")")) QANAT_RETURN_IF_ERROR(stream_.ExpectOperator(","));
  }
  return arguments;
}

ExpressionParser::Result ExpressionParser::ParseFiltersAndTests(ExprPtr input) {
  while (true) {
    if (stream_.current().IsOperator("|")) {
      QANAT_ASSIGN_OR_RETURN(input, ParseFilters(std::move(input), /*first_without_pipe=*/false));
    } else if (stream_.current().IsName("is")) {
      QANAT_ASSIGN_OR_RETURN(input, ParseTest(std::move(input)));
    } else if (stream_.current().IsOperator("(")) {
      QANAT_ASSIGN_OR_RETURN(input, ParseCall(std::move(input)));
    } else {
      return input;
    }
  }
}

absl::StatusOr<std::string> ExpressionParser::ParseDottedName() {
  QANAT_ASSIGN_OR_RETURN(std::string name, stream_.TakeName());
  while (stream_.SkipOperator(".")) {
    QANAT_ASSIGN_OR_RETURN(const std::string part, stream_.TakeName());
    name += "." + part;
  }
  return name;
}

ExpressionParser::Result ExpressionParser::ParseFilters(ExprPtr input, bool first_without_pipe) {
  while (first_without_pipe || stream_.SkipOperator("|")) {
    first_without_pipe = false;
    const int line = stream_.line();
    QANAT_ASSIGN_OR_RETURN(const std::string name, ParseDottedName());
    const Filter* filter = FindFilter(name);
    if (filter == nullptr) return Unsupported(line, Cat("the filter ", name));
    ast::CallArguments arguments;
    if (stream_.current().IsOperator("(")) {
      QANAT_ASSIGN_OR_RETURN(arguments, ParseArguments());
    }
    const int deepest = ast::Deepest(input, arguments);
    QANAT_ASSIGN_OR_RETURN(
        input, Make(line, deepest, ast::ApplyFilter{std::move(input), filter, std::move(arguments)}));
  }
  return input;
}

// A test may have one argument without parentheses: "is divisibleby 3".
absl::StatusOr<ast::CallArguments> ExpressionParser::ParseTestArguments() {
  if (stream_.current().IsOperator("(")) return ParseArguments();
  ast::CallArguments arguments;
  const Token& token = stream_.current();
  if (token.IsName("is")) return SyntaxError(token.line, "tests cannot be chained with is");
  const bool begins_value = (token.type == Token::Type::kName && !token.IsName("else") &&
                             !token.IsName("or") && !token.IsName("and")) ||
                            token.type == Token::Type::kString || token.type == Token::Type::kInteger ||
                            token.type == Token::Type::kFloat || token.IsOperator("[") ||
                            token.IsOperator("{");
  if (begins_value) {
    QANAT_ASSIGN_OR_RETURN(ExprPtr value, ParsePrimary());
    QANAT_ASSIGN_OR_RETURN(value, ParsePostfix(std::move(value)));
    arguments.positional.push_back(std::move(value));
  }
  return arguments;
}

ExpressionParser::Result ExpressionParser::ParseTest(ExprPtr input) {
  const int line = stream_.line();
  stream_.Skip();
  const bool negated = stream_.SkipName("not");
  QANAT_ASSIGN_OR_RETURN(const std::string name, ParseDottedName());
  const Predicate* test = FindPredicate(name);
  if (test == nullptr) return Unsupported(line, Cat("the test ", name));
  if (std::holds_alternative<ast::LoopDefined>(input->node) && name != "defined" && name != "undefined") {
    return Unsupported(line, "the loop used as a value");
  }
  QANAT_ASSIGN_OR_RETURN(ast::CallArguments arguments, ParseTestArguments());
  const int deepest = ast::Deepest(input, arguments);
  QANAT_ASSIGN_OR_RETURN(ExprPtr result,
                         Make(line, deepest, ast::ApplyTest{std::move(input), test, std::move(arguments)}));
  if (!negated) return result;
  return Make(line, deepest + 1, ast::Not{std::move(result)});
}

}  // namespace qanat::text::jinja
