// Filters that look at or rearrange the items of a value.
#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "common/base/status_macros.h"
#include "common/text/jinja/access.h"
#include "common/text/jinja/cat.h"
#include "common/text/jinja/filters.h"
#include "common/text/jinja/operators.h"
#include "common/text/jinja/unicode.h"

namespace qanat::text::jinja::filters {
namespace {

using ListType = jinja::List::Type;

// What sort, unique, min and max compare instead of an item.
class KeyOf {
 public:
  KeyOf(AttributePath path, bool case_sensitive) : path_(std::move(path)), case_sensitive_(case_sensitive) {}

  absl::StatusOr<Value> operator()(const Value& item, Budget& budget) const {
    QANAT_ASSIGN_OR_RETURN(Value key, path_.Get(item, nullptr, budget));
    if (case_sensitive_ || !key.Is(Kind::kString)) return key;
    QANAT_RETURN_IF_ERROR(budget.SpendText(key.text()));
    return Value::Str(ConvertCase(key.text(), LetterCase::kLower));
  }

 private:
  AttributePath path_;
  bool case_sensitive_;
};

absl::StatusOr<KeyOf> MakeKey(const std::optional<Value>& attribute,
                              const std::optional<Value>& case_sensitive) {
  const Value path = attribute.value_or(Value::None());
  if (path.Is(Kind::kString) && path.bytes().find(',') != std::string::npos) {
    return RenderError("sorting by several attributes is not supported");
  }
  QANAT_ASSIGN_OR_RETURN(AttributePath parsed, AttributePath::Parse(path));
  return KeyOf(std::move(parsed), TruthArgument(case_sensitive, false));
}

// Stable, like Python's sorted().
Result SortBy(const KeyOf& key_of, std::vector<Value> items, const std::optional<Value>& reverse_argument,
              Budget& budget) {
  QANAT_ASSIGN_OR_RETURN(const bool reverse, IntArgument("sort", reverse_argument, 0));
  std::vector<std::pair<Value, Value>> keyed;
  for (Value& item : items) {
    QANAT_ASSIGN_OR_RETURN(Value key, key_of(item, budget));
    keyed.emplace_back(std::move(key), std::move(item));
  }
  absl::Status status;
  std::stable_sort(keyed.begin(), keyed.end(), [&](const auto& a, const auto& b) {
    const absl::StatusOr<int> order = Order(a.first, b.first, budget);
    if (!order.ok()) {
      status = order.status();
      return false;
    }
    return *order != kUnordered && (reverse ? *order > 0 : *order < 0);
  });
  QANAT_RETURN_IF_ERROR(status);
  items.clear();
  for (auto& [key, item] : keyed) items.push_back(std::move(item));
  return MakeList(ListType::kList, std::move(items), budget);
}

Result Extreme(std::string_view callee, const Value& input, const Arguments& arguments, int wanted,
               Budget& budget) {
  QANAT_ASSIGN_OR_RETURN(const Bound bound, Bind(callee, arguments, {"case_sensitive", "attribute"}, 0));
  QANAT_ASSIGN_OR_RETURN(const KeyOf key_of, MakeKey(bound[1], bound[0]));
  QANAT_ASSIGN_OR_RETURN(const std::vector<Value> items, jinja::Items(input, budget));
  if (items.empty()) return Value::Missing("no smallest or largest item of nothing");
  size_t best = 0;
  QANAT_ASSIGN_OR_RETURN(Value best_key, key_of(items[0], budget));
  for (size_t i = 1; i < items.size(); ++i) {
    QANAT_ASSIGN_OR_RETURN(Value key, key_of(items[i], budget));
    QANAT_ASSIGN_OR_RETURN(const int order, Order(key, best_key, budget));
    if (order != wanted) continue;
    best = i;
    best_key = std::move(key);
  }
  return items[best];
}

}  // namespace

Result Default(const Value& input, const Arguments& arguments, Budget& budget) {
  QANAT_ASSIGN_OR_RETURN(const Bound bound, Bind("default", arguments, {"default_value", "boolean"}, 0));
  const bool replaced = input.Is(Kind::kUndefined) || (TruthArgument(bound[1], false) && !Truth(input));
  return replaced ? bound[0].value_or(Value::Plain("")) : input;
}

Result Length(const Value& input, const Arguments& arguments, Budget& budget) {
  QANAT_RETURN_IF_ERROR(Bind("length", arguments, {}, 0).status());
  QANAT_ASSIGN_OR_RETURN(const int64_t length, jinja::Length(input, budget));
  return Value::Int(length);
}

Result First(const Value& input, const Arguments& arguments, Budget& budget) {
  QANAT_RETURN_IF_ERROR(Bind("first", arguments, {}, 0).status());
  if (input.Is(Kind::kList)) {
    const jinja::List& list = input.list();
    if (list.taken >= list.items.size()) return Value::Missing("no first item of nothing");
    // Of an iterator only that item is gone.
    return list.items[list.HasLength() ? 0 : list.taken++];
  }
  QANAT_ASSIGN_OR_RETURN(const std::vector<Value> items, jinja::Items(input, budget));
  return items.empty() ? Value::Missing("no first item of nothing") : items.front();
}

Result Last(const Value& input, const Arguments& arguments, Budget& budget) {
  QANAT_RETURN_IF_ERROR(Bind("last", arguments, {}, 0).status());
  if (input.Is(Kind::kList) && !input.list().HasLength()) return RenderError("an iterator has no last item");
  QANAT_ASSIGN_OR_RETURN(const std::vector<Value> items, jinja::Items(input, budget));
  return items.empty() ? Value::Missing("no last item of nothing") : items.back();
}

Result List(const Value& input, const Arguments& arguments, Budget& budget) {
  QANAT_RETURN_IF_ERROR(Bind("list", arguments, {}, 0).status());
  QANAT_ASSIGN_OR_RETURN(std::vector<Value> items, jinja::Items(input, budget));
  return MakeList(ListType::kList, std::move(items), budget);
}

Result Reverse(const Value& input, const Arguments& arguments, Budget& budget) {
  QANAT_RETURN_IF_ERROR(Bind("reverse", arguments, {}, 0).status());
  if (input.Is(Kind::kString)) {
    return Slice(input, Value::None(), Value::None(), Value::Int(-1), budget);
  }
  const bool makes_list = input.Is(Kind::kList) && !input.list().HasLength();
  QANAT_ASSIGN_OR_RETURN(std::vector<Value> items, jinja::Items(input, budget));
  std::reverse(items.begin(), items.end());
  return MakeList(makes_list ? ListType::kList : ListType::kIterator, std::move(items), budget);
}

Result Items(const Value& input, const Arguments& arguments, Budget& budget) {
  QANAT_RETURN_IF_ERROR(Bind("items", arguments, {}, 0).status());
  if (input.Is(Kind::kUndefined)) return MakeList(ListType::kIterator, {}, budget);
  if (!input.Is(Kind::kDict)) return RenderError(Cat("items wants a dict, not '", TypeName(input), "'"));
  QANAT_ASSIGN_OR_RETURN(std::vector<Value> pairs, Pairs(input.dict(), budget));
  return MakeList(ListType::kIterator, std::move(pairs), budget);
}

Result DictSort(const Value& input, const Arguments& arguments, Budget& budget) {
  QANAT_ASSIGN_OR_RETURN(const Bound bound,
                         Bind("dictsort", arguments, {"case_sensitive", "by", "reverse"}, 0));
  if (!input.Is(Kind::kDict)) return RenderError(Cat("dictsort wants a dict, not '", TypeName(input), "'"));
  QANAT_ASSIGN_OR_RETURN(const Text* by, TextArgument("dictsort", bound[1]));
  const std::string_view by_what = by == nullptr ? std::string_view("key") : std::string_view(by->bytes());
  if (by_what != "key" && by_what != "value") return RenderError("dictsort sorts by 'key' or 'value'");
  QANAT_ASSIGN_OR_RETURN(const KeyOf key_of, MakeKey(Value::Int(by_what == "key" ? 0 : 1), bound[0]));
  QANAT_ASSIGN_OR_RETURN(std::vector<Value> pairs, Pairs(input.dict(), budget));
  return SortBy(key_of, std::move(pairs), bound[2], budget);
}

Result Sort(const Value& input, const Arguments& arguments, Budget& budget) {
  QANAT_ASSIGN_OR_RETURN(const Bound bound,
                         Bind("sort", arguments, {"reverse", "case_sensitive", "attribute"}, 0));
  QANAT_ASSIGN_OR_RETURN(const KeyOf key_of, MakeKey(bound[2], bound[1]));
  QANAT_ASSIGN_OR_RETURN(std::vector<Value> items, jinja::Items(input, budget));
  return SortBy(key_of, std::move(items), bound[0], budget);
}

Result Unique(const Value& input, const Arguments& arguments, Budget& budget) {
  QANAT_ASSIGN_OR_RETURN(const Bound bound, Bind("unique", arguments, {"case_sensitive", "attribute"}, 0));
  QANAT_ASSIGN_OR_RETURN(const KeyOf key_of, MakeKey(bound[1], bound[0]));
  QANAT_ASSIGN_OR_RETURN(std::vector<Value> items, jinja::Items(input, budget));
  Dict seen;
  std::vector<Value> unique;
  for (Value& item : items) {
    QANAT_ASSIGN_OR_RETURN(Value key, key_of(item, budget));
    const size_t before = seen.entries().size();
    QANAT_RETURN_IF_ERROR(seen.Set(std::move(key), Value::None()));
    if (seen.entries().size() > before) unique.push_back(std::move(item));
  }
  return MakeList(ListType::kIterator, std::move(unique), budget);
}

Result Min(const Value& input, const Arguments& arguments, Budget& budget) {
  return Extreme("min", input, arguments, -1, budget);
}

Result Max(const Value& input, const Arguments& arguments, Budget& budget) {
  return Extreme("max", input, arguments, 1, budget);
}

}  // namespace qanat::text::jinja::filters
