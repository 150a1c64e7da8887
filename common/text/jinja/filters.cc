#include "common/text/jinja/filters.h"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <string>
#include <utility>

#include "common/base/status_macros.h"
#include "common/text/jinja/access.h"
#include "common/text/jinja/cat.h"

namespace qanat::text::jinja {
namespace {

bool IsMarkup(const Value& value) { return value.Is(Kind::kString) && value.string().markup; }

constexpr Filter kFilters[] = {
    {"abs", filters::Abs},
    {"capitalize", filters::Capitalize},
    {"count", filters::Length, true},
    {"d", filters::Default, true},
    {"default", filters::Default, true},
    {"dictsort", filters::DictSort},
    {"e", filters::Escape, true},
    {"escape", filters::Escape, true},
    {"first", filters::First},
    {"float", filters::Float},
    {"indent", filters::Indent},
    {"int", filters::Int},
    {"items", filters::Items},
    {"join", filters::Join},
    {"last", filters::Last},
    {"length", filters::Length, true},
    {"list", filters::List},
    {"lower", filters::Lower},
    {"map", filters::Map},
    {"max", filters::Max},
    {"min", filters::Min},
    {"reject", filters::Reject},
    {"rejectattr", filters::RejectAttr},
    {"replace", filters::Replace},
    {"reverse", filters::Reverse},
    {"round", filters::Round},
    {"safe", filters::Safe, true},
    {"select", filters::Select},
    {"selectattr", filters::SelectAttr},
    {"sort", filters::Sort},
    {"string", filters::String, true},
    {"sum", filters::Sum},
    {"title", filters::Title},
    {"tojson", filters::ToJson, true},
    {"trim", filters::Trim},
    {"unique", filters::Unique},
    {"upper", filters::Upper},
};

}  // namespace

const Filter* FindFilter(std::string_view name) {
  const auto* found = std::find_if(std::begin(kFilters), std::end(kFilters),
                                   [name](const Filter& filter) { return filter.name == name; });
  return found == std::end(kFilters) ? nullptr : found;
}

absl::StatusOr<Value> CallFilter(const Filter& filter, const Value& input, const Arguments& arguments,
                                 Budget& budget) {
  QANAT_RETURN_IF_ERROR(budget.Spend(1));
  if (!filter.takes_markup && IsMarkup(input)) {
    return RenderError(Cat("the filter ", filter.name, " of a |safe string is not supported"));
  }
  return filter.call(input, arguments, budget);
}

absl::StatusOr<AttributePath> AttributePath::Parse(const Value& path) {
  AttributePath result;
  if (path.Is(Kind::kNone)) return result;
  if (!path.Is(Kind::kString)) {
    result.parts_.push_back(path);
    return result;
  }
  const std::string_view text = path.bytes();
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find('.', begin), text.size());
    const std::string_view part = text.substr(begin, end - begin);
    begin = end + 1;
    int64_t index = 0;
    const bool digits = !part.empty() && part.find_first_not_of("0123456789") == std::string_view::npos;
    if (digits && std::from_chars(part.data(), part.data() + part.size(), index).ec == std::errc()) {
      result.parts_.push_back(Value::Int(index));
    } else {
      result.parts_.push_back(Value::Plain(std::string(part)));
    }
  }
  return result;
}

absl::StatusOr<Value> AttributePath::Get(Value value, const Value* otherwise, Budget& budget) const {
  for (const Value& part : parts_) {
    QANAT_RETURN_IF_ERROR(budget.Spend(1));
    QANAT_ASSIGN_OR_RETURN(value, Subscript(value, part, budget));
    if (otherwise != nullptr && value.Is(Kind::kUndefined)) value = *otherwise;
  }
  return value;
}

}  // namespace qanat::text::jinja
