// map, and the filters that keep some of the items.
#include <utility>
#include <vector>

#include "common/base/status_macros.h"
#include "common/text/jinja/access.h"
#include "common/text/jinja/cat.h"
#include "common/text/jinja/filters.h"
#include "common/text/jinja/operators.h"
#include "common/text/jinja/predicates.h"

namespace qanat::text::jinja::filters {
namespace {

using ListType = jinja::List::Type;

// The arguments from `begin` on, for what is called for each item.
Arguments Rest(const Arguments& arguments, size_t begin) {
  Arguments rest;
  for (size_t i = begin; i < arguments.positional.size(); ++i)
    rest.positional.push_back(arguments.positional[i]);
  rest.named = arguments.named;
  return rest;
}

absl::StatusOr<std::string> NameArgument(std::string_view callee, const Value& value) {
  if (!value.Is(Kind::kString)) return RenderError(Cat(callee, " wants a name, not '", TypeName(value), "'"));
  return value.bytes();
}

Result MapAttribute(const Value& input, const Arguments& arguments, Budget& budget) {
  QANAT_ASSIGN_OR_RETURN(const Bound bound, Bind("map", arguments, {"attribute", "default"}, 1));
  QANAT_ASSIGN_OR_RETURN(const AttributePath path, AttributePath::Parse(*bound[0]));
  const bool has_default = bound[1].has_value() && !bound[1]->Is(Kind::kNone);
  QANAT_ASSIGN_OR_RETURN(std::vector<Value> items, jinja::Items(input, budget));
  for (Value& item : items) {
    QANAT_ASSIGN_OR_RETURN(item, path.Get(std::move(item), has_default ? &*bound[1] : nullptr, budget));
  }
  return MakeList(ListType::kIterator, std::move(items), budget);
}

// The items for which a test, or their truth without one, is `wanted`. With `by_attribute` the first argument
// names what of an item is tested.
Result Choose(std::string_view callee, const Value& input, const Arguments& arguments, bool by_attribute,
              bool wanted, Budget& budget) {
  // As in jinja2, nothing is looked at when there is no item.
  if (!Truth(input)) return MakeList(ListType::kIterator, {}, budget);
  const size_t first = by_attribute ? 1 : 0;
  if (arguments.positional.size() < first) return RenderError(Cat(callee, " wants the name of an attribute"));
  QANAT_ASSIGN_OR_RETURN(const AttributePath path,
                         AttributePath::Parse(by_attribute ? arguments.positional[0] : Value::None()));
  const Predicate* test = nullptr;
  if (arguments.positional.size() > first) {
    QANAT_ASSIGN_OR_RETURN(const std::string name, NameArgument(callee, arguments.positional[first]));
    test = FindPredicate(name);
    if (test == nullptr) return RenderError(Cat("the test ", name, " is not supported"));
  }
  const Arguments rest = Rest(arguments, first + 1);
  QANAT_ASSIGN_OR_RETURN(std::vector<Value> items, jinja::Items(input, budget));
  std::vector<Value> chosen;
  for (Value& item : items) {
    QANAT_ASSIGN_OR_RETURN(const Value tested, path.Get(item, nullptr, budget));
    bool holds = Truth(tested);
    if (test != nullptr) {
      QANAT_ASSIGN_OR_RETURN(holds, CallPredicate(*test, tested, rest, budget));
    }
    if (holds == wanted) chosen.push_back(std::move(item));
  }
  return MakeList(ListType::kIterator, std::move(chosen), budget);
}

}  // namespace

Result Map(const Value& input, const Arguments& arguments, Budget& budget) {
  if (!Truth(input)) return MakeList(ListType::kIterator, {}, budget);
  if (arguments.positional.empty()) return MapAttribute(input, arguments, budget);
  QANAT_ASSIGN_OR_RETURN(const std::string name, NameArgument("map", arguments.positional[0]));
  const Filter* filter = FindFilter(name);
  if (filter == nullptr) return RenderError(Cat("the filter ", name, " is not supported"));
  const Arguments rest = Rest(arguments, 1);
  QANAT_ASSIGN_OR_RETURN(std::vector<Value> items, jinja::Items(input, budget));
  for (Value& item : items) {
    QANAT_ASSIGN_OR_RETURN(item, CallFilter(*filter, item, rest, budget));
  }
  return MakeList(ListType::kIterator, std::move(items), budget);
}

Result Select(const Value& input, const Arguments& arguments, Budget& budget) {
  return Choose("select", input, arguments, /*by_attribute=*/false, /*wanted=*/true, budget);
}

Result Reject(const Value& input, const Arguments& arguments, Budget& budget) {
  return Choose("reject", input, arguments, /*by_attribute=*/false, /*wanted=*/false, budget);
}

Result SelectAttr(const Value& input, const Arguments& arguments, Budget& budget) {
  return Choose("selectattr", input, arguments, /*by_attribute=*/true, /*wanted=*/true, budget);
}

Result RejectAttr(const Value& input, const Arguments& arguments, Budget& budget) {
  return Choose("rejectattr", input, arguments, /*by_attribute=*/true, /*wanted=*/false, budget);
}

}  // namespace qanat::text::jinja::filters
