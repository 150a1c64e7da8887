// A template as a tree. Built by the parser, never changed afterwards, read by any number of threads.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "common/text/jinja/filters.h"
#include "common/text/jinja/operators.h"
#include "common/text/jinja/predicates.h"
#include "common/text/jinja/text.h"
#include "common/text/jinja/value.h"

namespace qanat::text::jinja::ast {

struct Expr;
struct Statement;
using ExprPtr = std::unique_ptr<Expr>;
using Body = std::vector<std::unique_ptr<Statement>>;

struct CallArguments {
  std::vector<ExprPtr> positional;
  std::vector<std::pair<std::string, ExprPtr>> named;
};

// Expressions.
struct Constant {
  Value value;
};
struct Name {
  std::string name;
};
struct LoopAttribute {  // loop.index; the loop itself is no value here
  std::string name;
};
struct LoopDefined {};  // loop is defined
struct Captured {};     // what a filter or set block has rendered
struct Sequence {       // [a, b] or (a, b)
  List::Type type;
  std::vector<ExprPtr> items;
};
struct DictLiteral {
  std::vector<std::pair<ExprPtr, ExprPtr>> entries;
};
struct Not {
  ExprPtr operand;
};
struct Sign {  // -x or +x
  bool negative;
  ExprPtr operand;
};
struct Logic {  // the deciding operand's value, not a bool
  bool is_and;
  ExprPtr left;
  ExprPtr right;
};
struct Binary {
  Arithmetic operation;
  ExprPtr left;
  ExprPtr right;
};
struct Comparisons {  // a < b == c: each neighbour pair must hold
  ExprPtr first;
  std::vector<std::pair<Comparison, ExprPtr>> rest;
};
struct Concat {  // a ~ b ~ c
  std::vector<ExprPtr> parts;
};
struct Conditional {
  ExprPtr condition;
  ExprPtr then;
  ExprPtr otherwise;  // null: undefined
};
struct GetAttribute {
  ExprPtr object;
  std::string name;
};
struct GetItem {
  ExprPtr object;
  ExprPtr index;
};
struct GetSlice {  // a null bound is left out
  ExprPtr object;
  ExprPtr start;
  ExprPtr stop;
  ExprPtr step;
};
struct Call {
  ExprPtr callee;
  CallArguments arguments;
};
struct ApplyFilter {
  ExprPtr input;
  const Filter* filter;
  CallArguments arguments;
};
struct ApplyTest {
  ExprPtr input;
  const Predicate* test;
  CallArguments arguments;
};

struct Expr {
  using Node = std::variant<Constant, Name, LoopAttribute, LoopDefined, Captured, Sequence, DictLiteral, Not,
                            Sign, Logic, Binary, Comparisons, Concat, Conditional, GetAttribute, GetItem,
                            GetSlice, Call, ApplyFilter, ApplyTest>;
  int line;
  int depth;  // 1 + the deepest part's
  Node node;
};

// What is assigned to: a name, an attribute of a namespace, or several targets that take a value apart.
struct Target {
  enum class Type { kName, kAttribute, kTuple };
  Type type;
  std::string name;
  std::string attribute;
  std::vector<Target> parts;
};

// Statements.
struct Data {  // text between tags
  Value text;
};
struct Print {
  ExprPtr value;
};
struct If {
  std::vector<std::pair<ExprPtr, Body>> branches;
  Body otherwise;
};
struct For {
  Target target;
  ExprPtr items;
  ExprPtr condition;  // null: every item
  Body body;
  Body otherwise;  // runs when there was no item
};
struct Set {
  Target target;
  ExprPtr value;
};
struct SetBlock {
  Target target;
  ExprPtr value;  // of Captured
  Body body;
};
struct FilterBlock {
  ExprPtr value;  // of Captured
  Body body;
};
struct With {
  std::vector<std::pair<Target, ExprPtr>> bindings;
  Body body;
};
struct Macro {
  struct Parameter {
    std::string name;
    ExprPtr otherwise;  // null: undefined
  };
  std::string name;
  std::vector<Parameter> parameters;
  Body body;
};
struct Generation {  // marks what an assistant wrote; here only a scope
  Body body;
};
struct Break {};
struct Continue {};

struct Statement {
  using Node = std::variant<Data, Print, If, For, Set, SetBlock, FilterBlock, With, Macro, Generation, Break,
                            Continue>;
  int line;
  Node node;
};

}  // namespace qanat::text::jinja::ast
