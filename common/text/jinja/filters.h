// The filters: value|name(arguments).
#pragma once

#include <string_view>

#include "absl/status/statusor.h"
#include "common/text/jinja/arguments.h"
#include "common/text/jinja/budget.h"
#include "common/text/jinja/value.h"

namespace qanat::text::jinja {

struct Filter {
  std::string_view name;
  absl::StatusOr<Value> (*call)(const Value& input, const Arguments& arguments, Budget& budget);
  bool takes_markup = false;  // does the same to a |safe string as to another
};

// Null for a filter that is not supported.
const Filter* FindFilter(std::string_view name);

absl::StatusOr<Value> CallFilter(const Filter& filter, const Value& input, const Arguments& arguments,
                                 Budget& budget);

// The filters that make up the table, by file.
namespace filters {

using Result = absl::StatusOr<Value>;

// text_filters.cc
Result Upper(const Value& input, const Arguments& arguments, Budget& budget);
Result Lower(const Value& input, const Arguments& arguments, Budget& budget);
Result Capitalize(const Value& input, const Arguments& arguments, Budget& budget);
Result Title(const Value& input, const Arguments& arguments, Budget& budget);
Result Trim(const Value& input, const Arguments& arguments, Budget& budget);
Result Replace(const Value& input, const Arguments& arguments, Budget& budget);
Result Indent(const Value& input, const Arguments& arguments, Budget& budget);
Result Join(const Value& input, const Arguments& arguments, Budget& budget);
Result String(const Value& input, const Arguments& arguments, Budget& budget);
Result Escape(const Value& input, const Arguments& arguments, Budget& budget);
Result Safe(const Value& input, const Arguments& arguments, Budget& budget);
Result ToJson(const Value& input, const Arguments& arguments, Budget& budget);

// sequence_filters.cc
Result Default(const Value& input, const Arguments& arguments, Budget& budget);
Result Length(const Value& input, const Arguments& arguments, Budget& budget);
Result First(const Value& input, const Arguments& arguments, Budget& budget);
Result Last(const Value& input, const Arguments& arguments, Budget& budget);
Result List(const Value& input, const Arguments& arguments, Budget& budget);
Result Reverse(const Value& input, const Arguments& arguments, Budget& budget);
Result Items(const Value& input, const Arguments& arguments, Budget& budget);
Result DictSort(const Value& input, const Arguments& arguments, Budget& budget);
Result Sort(const Value& input, const Arguments& arguments, Budget& budget);
Result Unique(const Value& input, const Arguments& arguments, Budget& budget);
Result Min(const Value& input, const Arguments& arguments, Budget& budget);
Result Max(const Value& input, const Arguments& arguments, Budget& budget);

// selecting_filters.cc
Result Map(const Value& input, const Arguments& arguments, Budget& budget);
Result Select(const Value& input, const Arguments& arguments, Budget& budget);
Result Reject(const Value& input, const Arguments& arguments, Budget& budget);
Result SelectAttr(const Value& input, const Arguments& arguments, Budget& budget);
Result RejectAttr(const Value& input, const Arguments& arguments, Budget& budget);

// number_filters.cc
Result Int(const Value& input, const Arguments& arguments, Budget& budget);
Result Float(const Value& input, const Arguments& arguments, Budget& budget);
Result Abs(const Value& input, const Arguments& arguments, Budget& budget);
Result Round(const Value& input, const Arguments& arguments, Budget& budget);
Result Sum(const Value& input, const Arguments& arguments, Budget& budget);

}  // namespace filters

// "a.0.b" as subscripts: 'a', 0, 'b'. An integer is one subscript; None is none.
class AttributePath {
 public:
  static absl::StatusOr<AttributePath> Parse(const Value& path);
  // With `otherwise` where something on the way is undefined, unless it is null.
  absl::StatusOr<Value> Get(Value value, const Value* otherwise, Budget& budget) const;

 private:
  std::vector<Value> parts_;
};

}  // namespace qanat::text::jinja
