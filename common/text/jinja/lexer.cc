#include "common/text/jinja/lexer.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "common/base/status_macros.h"
#include "common/text/jinja/cat.h"
#include "common/text/jinja/string_literal.h"
#include "common/text/jinja/unicode.h"

namespace qanat::text::jinja {
namespace {

// Longest first: the first that fits is the token.
constexpr std::string_view kOperators[] = {"//", "**", "==", "!=", ">=", "<=", "+", "-", "/",
                                           "*",  "%",  "~",  "[",  "]",  "(",  ")", "{", "}",
                                           ">",  "<",  "=",  ".",  ":",  "|",  ",", ";"};

bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsNameStart(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool IsNamePart(char c) { return IsNameStart(c) || IsDigit(c); }

// "\r\n" and "\r" become "\n"; one newline at the very end is dropped.
std::string NormalizeNewlines(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r') {
      out.push_back('\n');
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
    } else {
      out.push_back(source[i]);
    }
  }
  if (!out.empty() && out.back() == '\n') out.pop_back();
  return out;
}

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(NormalizeNewlines(source)) {}

  absl::StatusOr<std::vector<Token>> Run() {
    while (at_ < source_.size()) QANAT_RETURN_IF_ERROR(LexData());
    Add(Token::Type::kEnd, "");
    return std::move(tokens_);
  }

 private:
  struct RawTag {
    size_t length;
    char sign;  // '-', '+' or 0
  };

  absl::Status LexData();
  absl::Status LexComment();
  absl::Status LexRaw(const RawTag& begin);
  absl::Status LexTag(bool block);
  absl::StatusOr<bool> LexTagEnd(bool block);
  absl::Status LexNumber();
  absl::Status LexString();
  absl::Status LexOperator();

  size_t FindTag(size_t from) const;
  std::optional<RawTag> MatchRawTag(size_t at, std::string_view name) const;
  void AddData(std::string_view text, char sign, bool variable);

  bool StartsWith(size_t at, std::string_view text) const {
    return std::string_view(source_).substr(at).substr(0, text.size()) == text;
  }
  char SignAt(size_t at) const {
    return at < source_.size() && (source_[at] == '-' || source_[at] == '+') ? source_[at] : '\0';
  }
  size_t SkipSpace(size_t at) const {
    while (at < source_.size()) {
      const CodePoint c = CodePointAt(source_, at);
      if (!IsSpace(c.value)) break;
      at += c.length;
    }
    return at;
  }
  void Add(Token::Type type, std::string text) { tokens_.push_back({type, line_, std::move(text)}); }
  // Everything up to `to` has been read.
  void Advance(size_t to) {
    line_ += static_cast<int>(std::count(source_.begin() + static_cast<std::ptrdiff_t>(at_),
                                         source_.begin() + static_cast<std::ptrdiff_t>(to), '\n'));
    if (to > at_) at_line_start_ = source_[to - 1] == '\n';
    at_ = to;
  }
  // Where a tag's text after its end sign goes on: "-" takes all blanks, trim_blocks one newline.
  size_t AfterTag(size_t end, char sign, bool trims) const {
    if (sign == '-') return SkipSpace(end);
    return sign != '+' && trims && end < source_.size() && source_[end] == '\n' ? end + 1 : end;
  }

  const std::string source_;
  size_t at_ = 0;
  int line_ = 1;
  bool at_line_start_ = true;  // what was read last ended a line
  std::string open_brackets_;  // of the tag being read
  std::vector<Token> tokens_;
};

size_t Lexer::FindTag(size_t from) const {
  for (size_t at = source_.find('{', from); at != std::string::npos; at = source_.find('{', at + 1)) {
    if (at + 1 < source_.size() && std::string_view("%{#").find(source_[at + 1]) != std::string_view::npos)
      return at;
  }
  return source_.size();
}

// {% raw %} or {% endraw %}, with its blanks and signs.
std::optional<Lexer::RawTag> Lexer::MatchRawTag(size_t at, std::string_view name) const {
  if (!StartsWith(at, "{%")) return std::nullopt;
  const size_t begin = at;
  const char sign = SignAt(at + 2);
  at = SkipSpace(at + (sign == 0 ? 2 : 3));
  if (!StartsWith(at, name)) return std::nullopt;
  at = SkipSpace(at + name.size());
  const char end_sign = SignAt(at);
  if (end_sign == '+' && name == "raw") return std::nullopt;
  if (end_sign != 0) ++at;
  if (!StartsWith(at, "%}")) return std::nullopt;
  return RawTag{AfterTag(at + 2, end_sign, /*trims=*/name == "endraw") - begin, sign};
}

// Text before a tag. `sign` is the tag's: '-' takes the blanks before it; without one a block's or comment's
// indentation goes (lstrip_blocks).
void Lexer::AddData(std::string_view text, char sign, bool variable) {
  const auto ends_in_blank = [](std::string_view t) {
    return !t.empty() && IsSpace(CodePointAt(t, PreviousStart(t, t.size())).value);
  };
  std::string_view kept = text;
  if (sign == '-') {
    while (ends_in_blank(kept)) kept = kept.substr(0, PreviousStart(kept, kept.size()));
  } else if (sign == 0 && !variable) {
    std::string_view line = kept;
    while (ends_in_blank(line) && line.back() != '\n')
      line = line.substr(0, PreviousStart(line, line.size()));
    if (line.empty() ? at_line_start_ : line.back() == '\n') kept = line;
  }
  if (!kept.empty()) Add(Token::Type::kData, std::string(kept));
}

absl::Status Lexer::LexData() {
  const size_t tag = FindTag(at_);
  const std::string_view text = std::string_view(source_).substr(at_, tag - at_);
  if (tag == source_.size()) {
    AddData(text, '+', false);
    Advance(tag);
    return absl::OkStatus();
  }
  const std::optional<RawTag> raw = MatchRawTag(tag, "raw");
  const bool variable = source_[tag + 1] == '{';
  const char sign = SignAt(tag + 2);
  AddData(text, sign, variable);
  Advance(tag);
  if (raw.has_value()) return LexRaw(*raw);
  const bool comment = source_[tag + 1] == '#';
  if (!comment) Add(variable ? Token::Type::kVariableBegin : Token::Type::kBlockBegin, "");
  Advance(tag + (sign == 0 ? 2 : 3));
  return comment ? LexComment() : LexTag(!variable);
}

absl::Status Lexer::LexComment() {
  const size_t end = source_.find("#}", at_);
  if (end == std::string::npos) return SyntaxError(line_, "a comment does not end");
  Advance(AfterTag(end + 2, end > at_ ? SignAt(end - 1) : '\0', /*trims=*/true));
  return absl::OkStatus();
}

absl::Status Lexer::LexRaw(const RawTag& begin) {
  const int line = line_;
  Advance(at_ + begin.length);
  for (size_t at = FindTag(at_); at < source_.size(); at = FindTag(at + 1)) {
    const std::optional<RawTag> end = MatchRawTag(at, "endraw");
    if (!end.has_value()) continue;
    AddData(std::string_view(source_).substr(at_, at - at_), end->sign, /*variable=*/false);
    Advance(at + end->length);
    return absl::OkStatus();
  }
  return SyntaxError(line, "a raw block does not end");
}

// What stands between {% and %} or {{ and }}.
absl::Status Lexer::LexTag(bool block) {
  const int line = line_;
  while (true) {
    QANAT_ASSIGN_OR_RETURN(const bool ended, LexTagEnd(block));
    if (ended) return absl::OkStatus();
    if (at_ == source_.size())
      return SyntaxError(line, block ? "a block tag does not end" : "{{ does not end");
    const char c = source_[at_];
    if (const size_t end = SkipSpace(at_); end > at_) {
      Advance(end);
    } else if (IsDigit(c)) {
      QANAT_RETURN_IF_ERROR(LexNumber());
    } else if (IsNameStart(c)) {
      const size_t begin = at_;
      Advance(static_cast<size_t>(
          std::find_if_not(source_.begin() + static_cast<std::ptrdiff_t>(at_), source_.end(), IsNamePart) -
          source_.begin()));
      Add(Token::Type::kName, source_.substr(begin, at_ - begin));
    } else if (c == '\'' || c == '"') {
      QANAT_RETURN_IF_ERROR(LexString());
    } else {
      QANAT_RETURN_IF_ERROR(LexOperator());
    }
  }
}

absl::StatusOr<bool> Lexer::LexTagEnd(bool block) {
  if (!open_brackets_.empty()) return false;
  const std::string_view mark = block ? "%}" : "}}";
  char sign = SignAt(at_);
  if (sign == '+' && !block) sign = '\0';
  const size_t begin = at_ + (sign == 0 ? 0 : 1);
  if (!StartsWith(begin, mark)) return false;
  Add(block ? Token::Type::kBlockEnd : Token::Type::kVariableEnd, "");
  Advance(AfterTag(begin + 2, sign, /*trims=*/block));
  return true;
}

absl::Status Lexer::LexNumber() {
  const size_t begin = at_;
  size_t end = begin;
  const auto skip_digits = [&](size_t at) {
    while (at < source_.size() && IsDigit(source_[at])) ++at;
    return at;
  };
  end = skip_digits(begin);
  bool real = false;
  // After a dot ("x.0.1") a number is an index.
  if (begin == 0 || source_[begin - 1] != '.') {
    if (StartsWith(end, ".") && skip_digits(end + 1) > end + 1) {
      end = skip_digits(end + 1);
      real = true;
    }
    if (StartsWith(end, "e") || StartsWith(end, "E")) {
      const size_t digits = end + (SignAt(end + 1) == 0 ? 1 : 2);
      if (skip_digits(digits) > digits) {
        end = skip_digits(digits);
        real = true;
      }
    }
  }
  const std::string text = source_.substr(begin, end - begin);
  if (end < source_.size() && IsNamePart(source_[end]))
    return Unsupported(line_, Cat("the number form after ", text));
  if (!real && text.size() > 1 && text[0] == '0' && text.find_first_not_of('0') != std::string::npos) {
    return SyntaxError(line_, Cat("the number ", text, " begins with 0"));
  }
  Add(real ? Token::Type::kFloat : Token::Type::kInteger, text);
  Token& token = tokens_.back();
  const char* last = token.text.data() + token.text.size();
  const std::errc error = real ? std::from_chars(token.text.data(), last, token.real).ec
                               : std::from_chars(token.text.data(), last, token.integer).ec;
  if (error != std::errc()) return Unsupported(line_, Cat("the number ", text));
  Advance(end);
  return absl::OkStatus();
}

absl::Status Lexer::LexString() {
  const char quote = source_[at_];
  size_t end = at_ + 1;
  while (end < source_.size() && source_[end] != quote) end += source_[end] == '\\' ? 2 : 1;
  if (end >= source_.size()) return SyntaxError(line_, "a string does not end");
  absl::StatusOr<std::string> text = Unescape(std::string_view(source_).substr(at_ + 1, end - at_ - 1));
  if (!text.ok()) return SyntaxError(line_, std::string(text.status().message()));
  Add(Token::Type::kString, *std::move(text));
  Advance(end + 1);
  return absl::OkStatus();
}

absl::Status Lexer::LexOperator() {
  const auto* sign = std::find_if(std::begin(kOperators), std::end(kOperators),
                                  [&](std::string_view op) { return StartsWith(at_, op); });
  if (sign == std::end(kOperators)) {
    const size_t length = CodePointAt(source_, at_).length;
    return SyntaxError(line_, Cat("unexpected character '", source_.substr(at_, length), "'"));
  }
  const char c = sign->front();
  if (c == '(' || c == '[' || c == '{') {
    open_brackets_.push_back(c == '(' ? ')' : c == '[' ? ']' : '}');
  } else if (c == ')' || c == ']' || c == '}') {
    if (open_brackets_.empty() || open_brackets_.back() != c)
      return SyntaxError(line_, Cat("unexpected '", *sign, "'"));
    open_brackets_.pop_back();
  }
  Add(Token::Type::kOperator, std::string(*sign));
  Advance(at_ + sign->size());
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<Token>> Tokenize(std::string_view source) { return Lexer(source).Run(); }

absl::Status SyntaxError(int line, std::string_view problem) {
  return absl::InvalidArgumentError(Cat("line ", line, ": ", problem));
}

absl::Status Unsupported(int line, std::string_view construct) {
  return absl::UnimplementedError(Cat("line ", line, ": ", construct, " is not supported"));
}

}  // namespace qanat::text::jinja
