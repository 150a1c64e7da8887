// The values of a template: Python's, as far as templates can tell.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/text/jinja/budget.h"
#include "common/text/jinja/text.h"

namespace qanat::text::jinja {

namespace ast {
struct Macro;
}
struct List;
class Dict;
struct Namespace;
struct Method;

// The order is that of Value's alternatives.
enum class Kind {
  kUndefined,
  kNone,
  kBool,
  kInt,
  kFloat,
  kString,
  kList,
  kDict,
  kNamespace,
  kMethod,
  kFunction,
  kMacro,
};

// What a name or an attribute is that does not exist. Prints as nothing; most uses are errors.
struct Undefined {
  std::shared_ptr<const std::string> why;  // null: nothing more to say
};
struct None {};
struct String {
  std::shared_ptr<const Text> text;
  // Came from |safe: Python's Markup, which escapes what is added to it. Only a few operations take it.
  bool markup = false;
};
enum class Function { kRaiseException, kStrftimeNow, kRange, kNamespace, kDict };

// One value. Cheap to copy: text, lists and dicts are shared and never change once made; only a Namespace
// does. Values of one rendering belong to one thread; string constants of a template are shared by all.
class Value {
 public:
  Value() : storage_(Undefined{}) {}
  static Value None() { return Value(jinja::None{}); }
  static Value Bool(bool value) { return Value(value); }
  static Value Int(int64_t value) { return Value(value); }
  static Value Float(double value) { return Value(value); }
  static Value Str(Text text) { return Value(String{std::make_shared<const Text>(std::move(text))}); }
  static Value Plain(std::string bytes) { return Str(Text::Plain(std::move(bytes))); }
  static Value Control(std::string bytes) { return Str(Text::Control(std::move(bytes))); }
  static Value Markup(const Value& string) { return Value(String{string.string().text, true}); }
  // `why` completes an error message when the value is used: "'x' is undefined".
  static Value Missing(std::string why) {
    return Value(Undefined{std::make_shared<const std::string>(std::move(why))});
  }
  static Value Of(std::shared_ptr<const List> list) { return Value(std::move(list)); }
  static Value Of(std::shared_ptr<const Dict> dict) { return Value(std::move(dict)); }
  static Value Of(std::shared_ptr<Namespace> space) { return Value(std::move(space)); }
  static Value Of(std::shared_ptr<const Method> method) { return Value(std::move(method)); }
  static Value Of(Function function) { return Value(function); }
  static Value Of(const ast::Macro* macro) { return Value(macro); }

  Kind kind() const { return static_cast<Kind>(storage_.index()); }
  bool Is(Kind kind) const { return this->kind() == kind; }
  bool IsNumber() const { return Is(Kind::kBool) || Is(Kind::kInt) || Is(Kind::kFloat); }

  // REQUIRES for each: the value is of that kind.
  const Undefined& undefined() const { return std::get<Undefined>(storage_); }
  bool boolean() const { return std::get<bool>(storage_); }
  int64_t integer() const { return std::get<int64_t>(storage_); }
  double real() const { return std::get<double>(storage_); }
  const String& string() const { return std::get<String>(storage_); }
  const Text& text() const { return *string().text; }
  const std::string& bytes() const { return text().bytes(); }
  const List& list() const { return *std::get<std::shared_ptr<const List>>(storage_); }
  const Dict& dict() const { return *std::get<std::shared_ptr<const Dict>>(storage_); }
  Namespace& space() const { return *std::get<std::shared_ptr<Namespace>>(storage_); }
  const Method& method() const { return *std::get<std::shared_ptr<const Method>>(storage_); }
  Function function() const { return std::get<Function>(storage_); }
  const ast::Macro* macro() const { return std::get<const ast::Macro*>(storage_); }

  // The same object: what Python's `is` tells of the kinds that templates compare so.
  bool IsSameObject(const Value& other) const;

 private:
  using Storage =
      std::variant<Undefined, jinja::None, bool, int64_t, double, String, std::shared_ptr<const List>,
                   std::shared_ptr<const Dict>, std::shared_ptr<Namespace>, std::shared_ptr<const Method>,
                   Function, const ast::Macro*>;
  template <typename T>
  explicit Value(T value) : storage_(std::move(value)) {}

  Storage storage_;
};

// Everything that Python iterates over by position.
struct List {
  enum class Type { kList, kTuple, kKeysView, kValuesView, kItemsView, kRange, kIterator };
  Type type;
  std::vector<Value> items;
  int depth;  // 1 + the deepest item's
  // An iterator gives each item once: those before `taken` are gone.
  mutable size_t taken = 0;

  bool HasLength() const { return type != Type::kIterator; }
  bool HasSubscripts() const { return type == Type::kList || type == Type::kTuple || type == Type::kRange; }
};

// For items whose nesting and number were bounded elsewhere.
Value ListOf(List::Type type, std::vector<Value> items);
// A limit error when the items are nested too deeply. Pays one step an item.
absl::StatusOr<Value> MakeList(List::Type type, std::vector<Value> items, Budget& budget);

// A dict in order of insertion. Built once, then shared. Keys are strings, numbers, None or tuples of them.
class Dict {
 public:
  struct Entry {
    Value key;
    Value value;
  };

  // Replaces the value of an equal key, which keeps its place.
  // INVALID_ARGUMENT when the key has no hash or the value is nested too deeply.
  absl::Status Set(Value key, Value value);
  void SetText(std::string key, Value value);  // REQUIRES: DepthOf(value) < kMaxValueDepth

  // Null when absent. INVALID_ARGUMENT when the key has no hash.
  absl::StatusOr<const Value*> Find(const Value& key) const;
  const Value* Find(std::string_view key) const;

  const std::vector<Entry>& entries() const { return entries_; }
  int depth() const { return depth_; }

 private:
  void Put(absl::flat_hash_map<std::string, size_t>& index, std::string hash_key, Value key, Value value);

  std::vector<Entry> entries_;
  int depth_ = 1;
  // Where an entry is: by its text, or for other keys by what its equality depends on.
  absl::flat_hash_map<std::string, size_t> by_text_;
  absl::flat_hash_map<std::string, size_t> by_other_;
};

// namespace(): the one thing that a template can change. Owned by the interpreter, which empties it at the
// end of a rendering: namespaces may refer to each other in circles.
struct Namespace {
  absl::flat_hash_map<std::string, Value> attributes;
};

// A method together with its object, not yet called.
struct Method {
  Value self;
  std::string name;
};

// How deep lists and dicts are nested: 0 for others.
int DepthOf(const Value& value);

// As Python names types in messages: "str".
std::string_view TypeName(const Value& value);

// INVALID_ARGUMENT telling why an undefined value cannot be used. REQUIRES: the value is undefined.
absl::Status UndefinedError(const Value& value);

}  // namespace qanat::text::jinja
