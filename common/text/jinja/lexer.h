// A template's source as tokens, as jinja2's lexer cuts it with trim_blocks and lstrip_blocks.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace qanat::text::jinja {

struct Token {
  enum class Type {
    kData,  // text outside of tags; comments and raw tags are gone, blanks around tags already removed
    kVariableBegin,
    kVariableEnd,
    kBlockBegin,
    kBlockEnd,
    kName,
    kString,  // unescaped
    kInteger,
    kFloat,
    kOperator,
    kEnd,  // of the template; the last token, and only there
  };
  Type type;
  int line;  // from 1
  std::string text;
  int64_t integer = 0;
  double real = 0;

  bool IsName(std::string_view name) const { return type == Type::kName && text == name; }
  bool IsOperator(std::string_view sign) const { return type == Type::kOperator && text == sign; }
};

// INVALID_ARGUMENT or UNIMPLEMENTED, "line <n>: <what>".
absl::StatusOr<std::vector<Token>> Tokenize(std::string_view source);

// A mistake in a template, and a construct of Jinja that this interpreter does not have.
absl::Status SyntaxError(int line, std::string_view problem);
absl::Status Unsupported(int line, std::string_view construct);

}  // namespace qanat::text::jinja
