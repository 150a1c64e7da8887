#include "common/text/jinja/predicates.h"

#include <algorithm>
#include <iterator>
#include <vector>

#include "common/base/status_macros.h"
#include "common/text/jinja/access.h"
#include "common/text/jinja/cat.h"
#include "common/text/jinja/filters.h"
#include "common/text/jinja/operators.h"

namespace qanat::text::jinja {
namespace {

using Result = absl::StatusOr<bool>;
using List = std::vector<Value>;

Result HasRemainder(const Value& value, const Value& divisor, int64_t wanted, Budget& budget) {
  QANAT_ASSIGN_OR_RETURN(const Value remainder, Compute(Arithmetic::kModulo, value, divisor, budget));
  return Equal(remainder, Value::Int(wanted), budget);
}

// Python's len() and [] both work.
bool IsSequence(const Value& value) {
  if (value.Is(Kind::kList)) return value.list().HasSubscripts();
  return value.Is(Kind::kUndefined) || value.Is(Kind::kString) || value.Is(Kind::kDict);
}

template <Kind kind>
Result IsKind(const Value& value, const List&, Budget&) {
  return value.Is(kind);
}

template <bool wanted>
Result IsBool(const Value& value, const List&, Budget&) {
  return value.Is(Kind::kBool) && value.boolean() == wanted;
}

// Looks the value up as a dict would: one without a hash is an error.
template <typename Entry, const Entry* (*find)(std::string_view)>
Result IsKnownName(const Value& value, const List&, Budget&) {
  if (value.Is(Kind::kString)) return find(value.bytes()) != nullptr;
  QANAT_RETURN_IF_ERROR(Dict().Find(value).status());
  return false;
}

template <Comparison comparison>
Result CompareTo(const Value& value, const List& arguments, Budget& budget) {
  return Compare(comparison, value, arguments[0], budget);
}

constexpr Predicate kPredicates[] = {
    {"defined", 0, [](const Value& v, const List&, Budget&) -> Result { return !v.Is(Kind::kUndefined); }},
    {"undefined", 0, IsKind<Kind::kUndefined>},
    {"none", 0, IsKind<Kind::kNone>},
    {"boolean", 0, IsKind<Kind::kBool>},
    {"true", 0, IsBool<true>},
    {"false", 0, IsBool<false>},
    {"integer", 0, IsKind<Kind::kInt>},
    {"float", 0, IsKind<Kind::kFloat>},
    {"number", 0, [](const Value& v, const List&, Budget&) -> Result { return v.IsNumber(); }},
    {"string", 0, IsKind<Kind::kString>},
    {"mapping", 0, IsKind<Kind::kDict>},
    {"sequence", 0, [](const Value& v, const List&, Budget&) -> Result { return IsSequence(v); }},
    {"iterable", 0, [](const Value& v, const List&, Budget&) -> Result { return IsIterable(v); }},
    {"callable", 0,
     [](const Value& v, const List&, Budget&) -> Result {
       // Undefined has a __call__ too, one that fails.
       return v.Is(Kind::kMethod) || v.Is(Kind::kFunction) || v.Is(Kind::kMacro) || v.Is(Kind::kUndefined);
     }},
    {"odd", 0,
     [](const Value& v, const List&, Budget& budget) -> Result {
       return HasRemainder(v, Value::Int(2), 1, budget);
     }},
    {"even", 0,
     [](const Value& v, const List&, Budget& budget) -> Result {
       return HasRemainder(v, Value::Int(2), 0, budget);
     }},
    {"divisibleby", 1,
     [](const Value& v, const List& a, Budget& budget) -> Result {
       return HasRemainder(v, a[0], 0, budget);
     }},
    {"sameas", 1, [](const Value& v, const List& a, Budget&) -> Result { return v.IsSameObject(a[0]); }},
    {"in", 1,
     [](const Value& v, const List& a, Budget& budget) -> Result { return Contains(a[0], v, budget); }},
    {"filter", 0, IsKnownName<Filter, FindFilter>},
    {"test", 0, IsKnownName<Predicate, FindPredicate>},
    {"eq", 1, CompareTo<Comparison::kEqual>},
    {"equalto", 1, CompareTo<Comparison::kEqual>},
    {"==", 1, CompareTo<Comparison::kEqual>},
    {"ne", 1, CompareTo<Comparison::kNotEqual>},
    {"!=", 1, CompareTo<Comparison::kNotEqual>},
    {"lt", 1, CompareTo<Comparison::kLess>},
    {"lessthan", 1, CompareTo<Comparison::kLess>},
    {"<", 1, CompareTo<Comparison::kLess>},
    {"le", 1, CompareTo<Comparison::kLessEqual>},
    {"<=", 1, CompareTo<Comparison::kLessEqual>},
    {"gt", 1, CompareTo<Comparison::kGreater>},
    {"greaterthan", 1, CompareTo<Comparison::kGreater>},
    {">", 1, CompareTo<Comparison::kGreater>},
    {"ge", 1, CompareTo<Comparison::kGreaterEqual>},
    {">=", 1, CompareTo<Comparison::kGreaterEqual>},
};

}  // namespace

const Predicate* FindPredicate(std::string_view name) {
  const auto* found = std::find_if(std::begin(kPredicates), std::end(kPredicates),
                                   [name](const Predicate& predicate) { return predicate.name == name; });
  return found == std::end(kPredicates) ? nullptr : found;
}

absl::StatusOr<bool> CallPredicate(const Predicate& predicate, const Value& value, const Arguments& arguments,
                                   Budget& budget) {
  QANAT_RETURN_IF_ERROR(budget.Spend(1));
  if (!arguments.named.empty() || arguments.positional.size() != predicate.num_arguments) {
    return RenderError(Cat("the test ", predicate.name, " wants ", predicate.num_arguments, " arguments"));
  }
  return predicate.call(value, arguments.positional, budget);
}

}  // namespace qanat::text::jinja
