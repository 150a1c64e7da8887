#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "common/base/status_macros.h"
#include "common/text/jinja/cat.h"
#include "common/text/jinja/json.h"
#include "common/text/jinja/operators.h"
#include "common/text/jinja/printing.h"
#include "common/text/jinja/unicode.h"

namespace qanat::text::jinja {
namespace {

class Writer {
 public:
  Writer(const JsonStyle& style, std::string& out, Budget& budget)
      : style_(style), out_(out), budget_(budget) {}

  absl::Status Write(const Value& value) {
    QANAT_RETURN_IF_ERROR(budget_.Spend(1));
    switch (value.kind()) {
      case Kind::kNone:
      case Kind::kBool:
      case Kind::kInt:
      case Kind::kFloat:
        out_.append(Scalar(value));
        return absl::OkStatus();
      case Kind::kString:
        return WriteString(value.bytes());
      case Kind::kDict:
        return WriteDict(value.dict());
      case Kind::kList:
        if (value.list().type == List::Type::kList || value.list().type == List::Type::kTuple) {
          return WriteList(value.list().items);
        }
        break;
      default:
        break;
    }
    return RenderError(Cat("an object of type ", TypeName(value), " is not JSON serializable"));
  }

 private:
  static std::string Scalar(const Value& value) {
    if (value.Is(Kind::kNone)) return "null";
    if (value.Is(Kind::kBool)) return value.boolean() ? "true" : "false";
    if (value.Is(Kind::kInt)) return Cat(value.integer());
    if (std::isnan(value.real())) return "NaN";
    if (std::isinf(value.real())) return value.real() < 0 ? "-Infinity" : "Infinity";
    return FloatRepr(value.real());
  }

  absl::Status WriteString(std::string_view text) {
    QANAT_RETURN_IF_ERROR(budget_.SpendBytes(text.size()));
    out_.push_back('"');
    for (size_t at = 0; at < text.size();) {
      const CodePoint c = CodePointAt(text, at);
      WriteCharacter(c.value, text.substr(at, c.length));
      at += c.length;
    }
    out_.push_back('"');
    return absl::OkStatus();
  }

  void WriteCharacter(char32_t c, std::string_view bytes) {
    constexpr std::string_view kEscaped = "\"\\\n\r\t\f\b";
    constexpr std::string_view kLetters = "\"\\nrtfb";
    if (const size_t at = c < 0x80 ? kEscaped.find(static_cast<char>(c)) : std::string_view::npos;
        at != std::string_view::npos) {
      out_.push_back('\\');
      out_.push_back(kLetters[at]);
    } else if (c < 0x20 || (style_.ensure_ascii && c >= 0x7F && c <= 0xFFFF)) {
      absl::StrAppendFormat(&out_, "\\u%04x", static_cast<uint32_t>(c));
    } else if (style_.ensure_ascii && c > 0xFFFF && c != CodePoint::kNoCharacter) {
      const uint32_t rest = static_cast<uint32_t>(c) - 0x10000;
      absl::StrAppendFormat(&out_, "\\u%04x\\u%04x", 0xD800 | rest >> 10, 0xDC00 | (rest & 0x3FF));
    } else {
      out_.append(bytes);
    }
  }

  absl::Status WriteList(const std::vector<Value>& items) {
    if (items.empty()) {
      out_.append("[]");
      return absl::OkStatus();
    }
    out_.push_back('[');
    ++depth_;
    for (size_t i = 0; i < items.size(); ++i) {
      QANAT_RETURN_IF_ERROR(BeginItem(i == 0));
      QANAT_RETURN_IF_ERROR(Write(items[i]));
    }
    --depth_;
    QANAT_RETURN_IF_ERROR(BeginLine());
    out_.push_back(']');
    return absl::OkStatus();
  }

  absl::Status WriteDict(const Dict& dict) {
    if (dict.entries().empty()) {
      out_.append("{}");
      return absl::OkStatus();
    }
    out_.push_back('{');
    ++depth_;
    std::vector<const Dict::Entry*> entries;
    for (const Dict::Entry& entry : dict.entries()) entries.push_back(&entry);
    if (style_.sort_keys) QANAT_RETURN_IF_ERROR(Sort(entries));
    bool first = true;
    for (const Dict::Entry* entry : entries) {
      QANAT_RETURN_IF_ERROR(BeginItem(std::exchange(first, false)));
      QANAT_RETURN_IF_ERROR(WriteKey(entry->key));
      out_.append(style_.key_separator);
      QANAT_RETURN_IF_ERROR(Write(entry->value));
    }
    --depth_;
    QANAT_RETURN_IF_ERROR(BeginLine());
    out_.push_back('}');
    return absl::OkStatus();
  }

  absl::Status WriteKey(const Value& key) {
    if (key.Is(Kind::kString)) return WriteString(key.bytes());
    if (!key.IsNumber() && !key.Is(Kind::kNone)) {
      return RenderError(Cat("a key of type ", TypeName(key), " is not JSON serializable"));
    }
    out_.append("\"").append(Scalar(key)).append("\"");
    return absl::OkStatus();
  }

  absl::Status Sort(std::vector<const Dict::Entry*>& entries) {
    absl::Status status;
    std::stable_sort(entries.begin(), entries.end(), [&](const Dict::Entry* a, const Dict::Entry* b) {
      const absl::StatusOr<int> order = Order(a->key, b->key, budget_);
      if (!order.ok()) status = order.status();
      return order.ok() && *order < 0;
    });
    return status;
  }

  absl::Status BeginItem(bool first) {
    if (!first) {
      QANAT_RETURN_IF_ERROR(budget_.SpendBytes(style_.item_separator.size() + style_.key_separator.size()));
      out_.append(style_.item_separator);
    }
    return BeginLine();
  }

  absl::Status BeginLine() {
    if (!style_.indent.has_value()) return absl::OkStatus();
    QANAT_RETURN_IF_ERROR(budget_.SpendBytes(style_.indent->size() * depth_));
    out_.push_back('\n');
    for (size_t i = 0; i < depth_; ++i) out_.append(*style_.indent);
    return absl::OkStatus();
  }

  const JsonStyle& style_;
  std::string& out_;
  Budget& budget_;
  size_t depth_ = 0;
};

}  // namespace

absl::Status AppendJson(const Value& value, const JsonStyle& style, std::string& out, Budget& budget) {
  return Writer(style, out, budget).Write(value);
}

}  // namespace qanat::text::jinja
