#include "common/text/jinja/methods.h"

#include <algorithm>
#include <iterator>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "common/base/status_macros.h"
#include "common/text/jinja/access.h"
#include "common/text/jinja/cat.h"
#include "common/text/jinja/operators.h"
#include "common/text/jinja/string_methods.h"

namespace qanat::text::jinja {
namespace {

// Sorted. What Python's types have beside the methods supported here: they exist, but cannot be called.
constexpr std::string_view kOtherStringMethods[] = {
    "casefold", "center",    "encode",    "expandtabs",   "format",  "format_map", "isalnum",     "isalpha",
    "isascii",  "isdecimal", "isdigit",   "isidentifier", "islower", "isnumeric",  "isprintable", "istitle",
    "isupper",  "ljust",     "maketrans", "rindex",       "rjust",   "swapcase",   "translate",   "zfill"};
constexpr std::string_view kDictMethods[] = {"copy", "get", "items", "keys", "values"};
constexpr std::string_view kUnsafeDictMethods[] = {"clear", "pop", "popitem", "setdefault", "update"};
constexpr std::string_view kListMethods[] = {"copy", "count", "index"};
constexpr std::string_view kUnsafeListMethods[] = {"append", "clear",  "extend",  "insert",
                                                   "pop",    "remove", "reverse", "sort"};

template <size_t n>
bool IsIn(const std::string_view (&names)[n], std::string_view name) {
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

bool IsDunder(std::string_view name) {
  return name.size() > 4 && name.substr(0, 2) == "__" && name.substr(name.size() - 2) == "__";
}

absl::Status NotSupported(const Method& method) {
  return RenderError(Cat("the method ", method.name, " of '", TypeName(method.self), "' is not supported"));
}

absl::StatusOr<Value> View(List::Type type, const Dict& dict, Budget& budget) {
  QANAT_RETURN_IF_ERROR(budget.Spend(dict.entries().size()));
  if (type == List::Type::kItemsView) {
    QANAT_ASSIGN_OR_RETURN(std::vector<Value> pairs, Pairs(dict, budget));
    return MakeList(type, std::move(pairs), budget);
  }
  std::vector<Value> items;
  for (const Dict::Entry& entry : dict.entries()) {
    items.push_back(type == List::Type::kKeysView ? entry.key : entry.value);
  }
  return MakeList(type, std::move(items), budget);
}

absl::StatusOr<Value> CallDictMethod(const Method& method, const Arguments& arguments, Budget& budget) {
  const Dict& dict = method.self.dict();
  if (method.name == "get") {
    if (!arguments.named.empty()) return RenderError("get() takes no named arguments");
    QANAT_ASSIGN_OR_RETURN(const Bound bound, Bind("get", arguments, {"key", "default"}, 1));
    QANAT_ASSIGN_OR_RETURN(const Value* found, dict.Find(*bound[0]));
    return found != nullptr ? *found : bound[1].value_or(Value::None());
  }
  QANAT_RETURN_IF_ERROR(Bind(method.name, arguments, {}, 0).status());
  if (method.name == "items") return View(List::Type::kItemsView, dict, budget);
  if (method.name == "keys") return View(List::Type::kKeysView, dict, budget);
  if (method.name == "values") return View(List::Type::kValuesView, dict, budget);
  if (method.name == "copy") return method.self;
  return NotSupported(method);
}

absl::StatusOr<Value> CallListMethod(const Method& method, const Arguments& arguments, Budget& budget) {
  const List& list = method.self.list();
  if (method.name == "copy") {
    QANAT_RETURN_IF_ERROR(Bind("copy", arguments, {}, 0).status());
    return MakeList(list.type, list.items, budget);
  }
  if (!arguments.named.empty()) return RenderError(Cat(method.name, "() takes no named arguments"));
  QANAT_ASSIGN_OR_RETURN(const Bound bound, Bind(method.name, arguments, {"value"}, 1));
  int64_t count = 0;
  for (size_t i = 0; i < list.items.size(); ++i) {
    QANAT_ASSIGN_OR_RETURN(const bool equal, Equal(list.items[i], *bound[0], budget));
    if (equal && method.name == "index") return Value::Int(static_cast<int64_t>(i));
    count += equal ? 1 : 0;
  }
  if (method.name == "index") return RenderError("index(): the value is not in the list");
  return Value::Int(count);
}

}  // namespace

MemberClass ClassifyMember(const Value& value, std::string_view name) {
  // Every Python object has such members, none of which is any business of a template.
  if (IsDunder(name)) return MemberClass::kUnsafe;
  switch (value.kind()) {
    case Kind::kString:
      return FindStringMethod(name) != nullptr || IsIn(kOtherStringMethods, name) ? MemberClass::kMethod
                                                                                  : MemberClass::kNone;
    case Kind::kDict:
      if (IsIn(kUnsafeDictMethods, name)) return MemberClass::kUnsafe;
      return IsIn(kDictMethods, name) || name == "fromkeys" ? MemberClass::kMethod : MemberClass::kNone;
    case Kind::kList:
      if (value.list().type == List::Type::kList && IsIn(kUnsafeListMethods, name))
        return MemberClass::kUnsafe;
      if (value.list().type == List::Type::kList && IsIn(kListMethods, name)) return MemberClass::kMethod;
      if (value.list().HasSubscripts() && (name == "count" || name == "index")) return MemberClass::kMethod;
      return MemberClass::kNone;
    default:
      return MemberClass::kNone;
  }
}

bool IsSupportedMethod(std::string_view name) {
  return FindStringMethod(name) != nullptr || IsIn(kDictMethods, name) || IsIn(kListMethods, name);
}

absl::StatusOr<Value> CallMethod(const Method& method, const Arguments& arguments, Budget& budget) {
  switch (method.self.kind()) {
    case Kind::kString: {
      const StringMethod* found = FindStringMethod(method.name);
      if (found == nullptr) return NotSupported(method);
      if (method.self.string().markup) return RenderError("methods of a |safe string are not supported");
      return CallStringMethod(*found, method.self, arguments, budget);
    }
    case Kind::kDict:
      return CallDictMethod(method, arguments, budget);
    case Kind::kList:
      return CallListMethod(method, arguments, budget);
    default:
      return NotSupported(method);
  }
}

}  // namespace qanat::text::jinja
