#include "common/text/jinja/access.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <utility>

#include "common/base/status_macros.h"
#include "common/text/jinja/cat.h"
#include "common/text/jinja/methods.h"
#include "common/text/jinja/operators.h"
#include "common/text/jinja/unicode.h"

namespace qanat::text::jinja {
namespace {

Value NoSuch(const Value& value, std::string_view what, std::string_view name) {
  return Value::Missing(Cat("'", TypeName(value), " object' has no ", what, " '", name, "'"));
}

// The method or the like of Python's own type, or nullptr-like Undefined when the type has none of the name.
struct Member {
  bool exists;
  Value value;
};

Member OwnMember(const Value& value, const std::string& name) {
  if (value.Is(Kind::kNamespace)) {
    const auto& attributes = value.space().attributes;
    const auto found = attributes.find(name);
    return found == attributes.end() ? Member{false, {}} : Member{true, found->second};
  }
  switch (ClassifyMember(value, name)) {
    case MemberClass::kNone:
      return {false, {}};
    case MemberClass::kMethod:
      return {true, Value::Of(std::make_shared<const Method>(Method{value, name}))};
    case MemberClass::kUnsafe:
      break;
  }
  return {true, Value::Missing(
                    Cat("access to attribute '", name, "' of '", TypeName(value), "' object is unsafe"))};
}

// An item by position, counted from the end when negative.
absl::StatusOr<Value> ItemAt(const Value& value, int64_t index, Budget& budget) {
  const Value absent = NoSuch(value, "item", Cat(index));
  if (value.Is(Kind::kList)) {
    const auto& items = value.list().items;
    if (!value.list().HasSubscripts()) return absent;
    const int64_t size = static_cast<int64_t>(items.size());
    if (index < -size || index >= size) return absent;
    return items[static_cast<size_t>(index < 0 ? index + size : index)];
  }
  const Text& text = value.text();
  QANAT_RETURN_IF_ERROR(budget.SpendText(text));
  if (index < 0) {
    size_t end = text.size();
    for (; end > 0; ++index) {
      const size_t begin = PreviousStart(text.bytes(), end);
      if (index == -1) return Value::Str(text.Slice(begin, end));
      end = begin;
    }
    return absent;
  }
  for (size_t at = 0; at < text.size(); --index) {
    const size_t length = CodePointAt(text.bytes(), at).length;
    if (index == 0) return Value::Str(text.Slice(at, at + length));
    at += length;
  }
  return absent;
}

// What value[index] finds without looking at methods.
absl::StatusOr<Member> Entry(const Value& value, const Value& index, Budget& budget) {
  if (value.Is(Kind::kDict)) {
    // As in jinja2, an unhashable key is an absent one.
    const absl::StatusOr<const Value*> found = value.dict().Find(index);
    if (found.ok() && *found != nullptr) return Member{true, **found};
  } else if ((value.Is(Kind::kList) || value.Is(Kind::kString)) &&
             (index.Is(Kind::kInt) || index.Is(Kind::kBool))) {
    QANAT_ASSIGN_OR_RETURN(Value item, ItemAt(value, AsInt(index), budget));
    if (!item.Is(Kind::kUndefined)) return Member{true, std::move(item)};
  }
  return Member{false, {}};
}

struct Bounds {
  int64_t first;
  int64_t count;
  int64_t step;

  // The i-th place. REQUIRES: i < count: behind the last one lies what no integer may hold.
  int64_t At(int64_t i) const { return first + i * step; }
};

absl::StatusOr<int64_t> BoundOf(const Value& value, int64_t otherwise) {
  if (value.Is(Kind::kNone)) return otherwise;
  if (value.Is(Kind::kBool) || value.Is(Kind::kInt)) return AsInt(value);
  return RenderError(Cat("slice indices must be integers or None, not '", TypeName(value), "'"));
}

// PySlice_AdjustIndices.
absl::StatusOr<Bounds> ResolveSlice(const Value& start, const Value& stop, const Value& step, int64_t size) {
  QANAT_ASSIGN_OR_RETURN(int64_t by, BoundOf(step, 1));
  if (by == 0) return RenderError("slice step cannot be zero");
  by = std::max(by, -std::numeric_limits<int64_t>::max());
  const int64_t lowest = by < 0 ? -1 : 0;
  const int64_t highest = by < 0 ? size - 1 : size;
  const auto clip = [&](int64_t bound) {
    if (bound < 0) bound = std::max(bound, -size - 1) + size;
    return std::clamp(bound, lowest, highest);
  };
  QANAT_ASSIGN_OR_RETURN(const int64_t raw_first, BoundOf(start, 0));
  QANAT_ASSIGN_OR_RETURN(const int64_t raw_last, BoundOf(stop, 0));
  const int64_t first = start.Is(Kind::kNone) ? (by < 0 ? highest : lowest) : clip(raw_first);
  const int64_t last = stop.Is(Kind::kNone) ? (by < 0 ? lowest : highest) : clip(raw_last);
  int64_t count = 0;
  if (by < 0 && last < first) count = (first - last - 1) / -by + 1;
  if (by > 0 && first < last) count = (last - first - 1) / by + 1;
  return Bounds{first, count, by};
}

absl::StatusOr<Value> SliceText(const Text& text, const Value& start, const Value& stop, const Value& step,
                                Budget& budget) {
  QANAT_RETURN_IF_ERROR(budget.SpendText(text));
  std::vector<size_t> starts;
  for (size_t at = 0; at < text.size(); at += CodePointAt(text.bytes(), at).length) starts.push_back(at);
  const int64_t size = static_cast<int64_t>(starts.size());
  starts.push_back(text.size());
  QANAT_ASSIGN_OR_RETURN(const Bounds bounds, ResolveSlice(start, stop, step, size));
  if (bounds.count == 0) return Value::Str(Text());
  if (bounds.step == 1) {
    return Value::Str(text.Slice(starts[static_cast<size_t>(bounds.first)],
                                 starts[static_cast<size_t>(bounds.first + bounds.count)]));
  }
  Text out;
  for (int64_t i = 0; i < bounds.count; ++i) {
    const int64_t at = bounds.At(i);
    out.AppendSlice(text, starts[static_cast<size_t>(at)], starts[static_cast<size_t>(at + 1)]);
  }
  return Value::Str(std::move(out));
}

absl::Status NotIterable(const Value& value) {
  return RenderError(Cat("'", TypeName(value), "' object is not iterable"));
}

}  // namespace

absl::StatusOr<Value> Attribute(const Value& value, const std::string& name, Budget& budget) {
  Member member = OwnMember(value, name);
  if (value.Is(Kind::kUndefined) && !member.exists) return UndefinedError(value);
  if (member.exists) return std::move(member.value);
  if (value.Is(Kind::kDict)) {
    if (const Value* found = value.dict().Find(name)) return *found;
  }
  return NoSuch(value, "attribute", name);
}

absl::StatusOr<Value> Subscript(const Value& value, const Value& index, Budget& budget) {
  if (value.Is(Kind::kUndefined)) return UndefinedError(value);
  QANAT_ASSIGN_OR_RETURN(Member entry, Entry(value, index, budget));
  if (entry.exists) return std::move(entry.value);
  if (!index.Is(Kind::kString)) return NoSuch(value, "item of this", TypeName(index));
  Member member = OwnMember(value, index.bytes());
  return member.exists ? std::move(member.value) : NoSuch(value, "attribute", index.bytes());
}

absl::StatusOr<Value> Slice(const Value& value, const Value& start, const Value& stop, const Value& step,
                            Budget& budget) {
  if (value.Is(Kind::kUndefined)) return UndefinedError(value);
  if (value.Is(Kind::kString)) return SliceText(value.text(), start, stop, step, budget);
  if (!value.Is(Kind::kList) || !value.list().HasSubscripts()) {
    return RenderError(Cat("'", TypeName(value), "' object cannot be sliced"));
  }
  const std::vector<Value>& items = value.list().items;
  QANAT_ASSIGN_OR_RETURN(const Bounds bounds,
                         ResolveSlice(start, stop, step, static_cast<int64_t>(items.size())));
  std::vector<Value> slice;
  for (int64_t i = 0; i < bounds.count; ++i) {
    slice.push_back(items[static_cast<size_t>(bounds.At(i))]);
  }
  return MakeList(value.list().type, std::move(slice), budget);
}

absl::StatusOr<int64_t> Length(const Value& value, Budget& budget) {
  switch (value.kind()) {
    case Kind::kUndefined:
      return 0;
    case Kind::kString:
      QANAT_RETURN_IF_ERROR(budget.SpendBytes(value.bytes().size()));
      return static_cast<int64_t>(CountCodePoints(value.bytes()));
    case Kind::kDict:
      return static_cast<int64_t>(value.dict().entries().size());
    case Kind::kList:
      if (value.list().HasLength()) return static_cast<int64_t>(value.list().items.size());
      break;
    default:
      break;
  }
  return RenderError(Cat("object of type '", TypeName(value), "' has no length"));
}

bool IsIterable(const Value& value) {
  return value.Is(Kind::kUndefined) || value.Is(Kind::kString) || value.Is(Kind::kDict) ||
         value.Is(Kind::kList);
}

absl::StatusOr<std::vector<Value>> Items(const Value& value, Budget& budget) {
  std::vector<Value> items;
  switch (value.kind()) {
    case Kind::kUndefined:
      return items;
    case Kind::kList: {
      const List& list = value.list();
      QANAT_RETURN_IF_ERROR(budget.Spend(list.items.size() - list.taken));
      items.assign(list.items.begin() + static_cast<std::ptrdiff_t>(list.taken), list.items.end());
      if (!list.HasLength()) list.taken = list.items.size();
      return items;
    }
    case Kind::kDict:
      QANAT_RETURN_IF_ERROR(budget.Spend(value.dict().entries().size()));
      for (const Dict::Entry& entry : value.dict().entries()) items.push_back(entry.key);
      return items;
    case Kind::kString: {
      const Text& text = value.text();
      QANAT_RETURN_IF_ERROR(budget.Spend(kStepsPerString * CountCodePoints(text.bytes())));
      for (size_t at = 0; at < text.size();) {
        const size_t length = CodePointAt(text.bytes(), at).length;
        items.push_back(Value::Str(text.Slice(at, at + length)));
        at += length;
      }
      return items;
    }
    default:
      return NotIterable(value);
  }
}

absl::StatusOr<std::vector<Value>> Pairs(const Dict& dict, Budget& budget) {
  std::vector<Value> pairs;
  for (const Dict::Entry& entry : dict.entries()) {
    QANAT_ASSIGN_OR_RETURN(Value pair, MakeList(List::Type::kTuple, {entry.key, entry.value}, budget));
    pairs.push_back(std::move(pair));
  }
  return pairs;
}

}  // namespace qanat::text::jinja
