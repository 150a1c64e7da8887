#include "common/text/jinja/value.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/text/jinja/cat.h"

namespace qanat::text::jinja {
namespace {

absl::Status TooDeep() { return LimitError(Cat("a value is nested more than ", kMaxValueDepth, " deep")); }

// What the equality of a key that is no string depends on: 1, 1.0 and True are one key.
absl::StatusOr<std::string> HashKey(const Value& key) {
  switch (key.kind()) {
    case Kind::kUndefined:
      return std::string("undefined");
    case Kind::kNone:
      return std::string("none");
    case Kind::kBool:
      return Cat("i", key.boolean() ? 1 : 0);
    case Kind::kInt:
      return Cat("i", key.integer());
    case Kind::kFloat: {
      const double value = key.real();
      if (value == std::floor(value) && std::abs(value) < 0x1p63) {
        return Cat("i", static_cast<int64_t>(value));
      }
      return Cat("f", std::bit_cast<uint64_t>(value));
    }
    case Kind::kString:
      return Cat("s", key.bytes().size(), ":", key.bytes());
    case Kind::kList:
      if (key.list().type == List::Type::kTuple) {
        std::string joined = Cat("t", key.list().items.size(), ":");
        for (const Value& item : key.list().items) {
          QANAT_ASSIGN_OR_RETURN(const std::string part, HashKey(item));
          absl::StrAppend(&joined, part, ",");
        }
        return joined;
      }
      break;
    default:
      break;
  }
  return RenderError(Cat("unhashable type: '", TypeName(key), "'"));
}

}  // namespace

bool Value::IsSameObject(const Value& other) const {
  if (kind() != other.kind()) return false;
  switch (kind()) {
    case Kind::kUndefined:
    case Kind::kFloat:
    case Kind::kMethod:
      return false;  // a new object each time
    case Kind::kNone:
      return true;
    case Kind::kBool:
      return boolean() == other.boolean();
    case Kind::kInt:
      return integer() == other.integer();
    case Kind::kString:
      return bytes() == other.bytes();
    case Kind::kList:
      return &list() == &other.list();
    case Kind::kDict:
      return &dict() == &other.dict();
    case Kind::kNamespace:
      return &space() == &other.space();
    case Kind::kFunction:
      return function() == other.function();
    case Kind::kMacro:
      return macro() == other.macro();
  }
  return false;
}

Value ListOf(List::Type type, std::vector<Value> items) {
  int depth = 1;
  for (const Value& item : items) depth = std::max(depth, 1 + DepthOf(item));
  return Value::Of(std::make_shared<const List>(List{type, std::move(items), depth}));
}

absl::StatusOr<Value> MakeList(List::Type type, std::vector<Value> items, Budget& budget) {
  QANAT_RETURN_IF_ERROR(budget.Spend(1 + items.size()));
  for (const Value& item : items) {
    if (DepthOf(item) >= kMaxValueDepth) return TooDeep();
  }
  return ListOf(type, std::move(items));
}

absl::Status Dict::Set(Value key, Value value) {
  if (DepthOf(value) >= kMaxValueDepth) return TooDeep();
  if (key.Is(Kind::kString)) {
    std::string hash_key = key.bytes();
    Put(by_text_, std::move(hash_key), std::move(key), std::move(value));
  } else {
    QANAT_ASSIGN_OR_RETURN(std::string hash_key, HashKey(key));
    depth_ = std::max(depth_, 1 + DepthOf(key));
    Put(by_other_, std::move(hash_key), std::move(key), std::move(value));
  }
  return absl::OkStatus();
}

void Dict::SetText(std::string key, Value value) {
  std::string hash_key = key;
  Put(by_text_, std::move(hash_key), Value::Plain(std::move(key)), std::move(value));
}

void Dict::Put(absl::flat_hash_map<std::string, size_t>& index, std::string hash_key, Value key,
               Value value) {
  depth_ = std::max(depth_, 1 + DepthOf(value));
  const auto [found, inserted] = index.try_emplace(std::move(hash_key), entries_.size());
  if (inserted) {
    entries_.push_back({std::move(key), std::move(value)});
  } else {
    entries_[found->second].value = std::move(value);
  }
}

absl::StatusOr<const Value*> Dict::Find(const Value& key) const {
  if (key.Is(Kind::kString)) return Find(std::string_view(key.bytes()));
  QANAT_ASSIGN_OR_RETURN(const std::string hash_key, HashKey(key));
  const auto found = by_other_.find(hash_key);
  return found == by_other_.end() ? nullptr : &entries_[found->second].value;
}

const Value* Dict::Find(std::string_view key) const {
  const auto found = by_text_.find(absl::string_view(key.data(), key.size()));
  return found == by_text_.end() ? nullptr : &entries_[found->second].value;
}

int DepthOf(const Value& value) {
  switch (value.kind()) {
    case Kind::kList:
      return value.list().depth;
    case Kind::kDict:
      return value.dict().depth();
    case Kind::kMethod:
      return DepthOf(value.method().self);
    default:
      return 0;
  }
}

std::string_view TypeName(const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined:
      return "Undefined";
    case Kind::kNone:
      return "NoneType";
    case Kind::kBool:
      return "bool";
    case Kind::kInt:
      return "int";
    case Kind::kFloat:
      return "float";
    case Kind::kString:
      return value.string().markup ? "Markup" : "str";
    case Kind::kDict:
      return "dict";
    case Kind::kNamespace:
      return "Namespace";
    case Kind::kMethod:
    case Kind::kFunction:
      return "function";
    case Kind::kMacro:
      return "Macro";
    case Kind::kList:
      break;
  }
  switch (value.list().type) {
    case List::Type::kList:
      return "list";
    case List::Type::kTuple:
      return "tuple";
    case List::Type::kKeysView:
      return "dict_keys";
    case List::Type::kValuesView:
      return "dict_values";
    case List::Type::kItemsView:
      return "dict_items";
    case List::Type::kRange:
      return "range";
    case List::Type::kIterator:
      return "generator";
  }
  return "object";
}

absl::Status UndefinedError(const Value& value) {
  const auto& why = value.undefined().why;
  return RenderError(why == nullptr ? std::string("a value is undefined") : *why);
}

}  // namespace qanat::text::jinja
