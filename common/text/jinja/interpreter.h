// Walks over a template's tree and writes its text.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/text/jinja/arguments.h"
#include "common/text/jinja/ast.h"
#include "common/text/jinja/budget.h"
#include "common/text/jinja/functions.h"
#include "common/text/jinja/loop.h"
#include "common/text/jinja/template.h"
#include "common/text/jinja/text.h"
#include "common/text/jinja/value.h"

namespace qanat::text::jinja {

// One rendering. Lives on one thread for as long as it takes; variables, `now` and the tree outlive it.
// Statements are in interpreter.cc, expressions in evaluation.cc, loops in loop.cc.
// Errors: as Template::Render's. The first error ends the rendering; nothing catches one.
class Interpreter {
 public:
  Interpreter(const Variables& variables, const TimeFormatter& now, const Limits& limits)
      : variables_(variables), now_(now), budget_(limits), scope_(&root_) {}
  ~Interpreter();
  Interpreter(const Interpreter&) = delete;
  Interpreter& operator=(const Interpreter&) = delete;

  absl::StatusOr<Text> Run(const ast::Body& body);

 private:
  // What a statement wants to happen next.
  enum class Flow { kNext, kBreak, kContinue };

  // The names set in one block. Blocks are entered and left like calls, so scopes live on the stack.
  struct Scope {
    const Scope* parent = nullptr;
    absl::flat_hash_map<absl::string_view, Value> names;  // the keys are the tree's
  };

  // Makes a scope or a loop the present one as long as it lives.
  template <typename T>
  class Swap {
   public:
    Swap(T& place, T value) : place_(place), before_(std::exchange(place, value)) {}
    ~Swap() { place_ = before_; }
    Swap(const Swap&) = delete;
    Swap& operator=(const Swap&) = delete;

   private:
    T& place_;
    const T before_;
  };

  // Counts one level of recursion as long as it lives.
  class Level {
   public:
    explicit Level(int& depth) : depth_(++depth) {}
    ~Level() { --depth_; }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;

   private:
    int& depth_;
  };

  // Statements.
  absl::StatusOr<Flow> Execute(const ast::Body& body);
  absl::StatusOr<Flow> Execute(const ast::Statement& statement);
  absl::StatusOr<Flow> Do(const ast::Data& node);
  absl::StatusOr<Flow> Do(const ast::Print& node);
  absl::StatusOr<Flow> Do(const ast::If& node);
  absl::StatusOr<Flow> Do(const ast::For& node);
  absl::StatusOr<Flow> Do(const ast::Set& node);
  absl::StatusOr<Flow> Do(const ast::SetBlock& node);
  absl::StatusOr<Flow> Do(const ast::FilterBlock& node);
  absl::StatusOr<Flow> Do(const ast::With& node);
  absl::StatusOr<Flow> Do(const ast::Macro& node);
  absl::StatusOr<Flow> Do(const ast::Generation& node);
  absl::StatusOr<Flow> Do(const ast::Break& node) { return Flow::kBreak; }
  absl::StatusOr<Flow> Do(const ast::Continue& node) { return Flow::kContinue; }
  // Runs `body`, whose text becomes the value of Captured in `value`. Unset: a break or continue left the
  // body.
  absl::StatusOr<std::optional<Value>> Capture(const ast::Body& body, const ast::Expr& value, Flow& flow);
  absl::Status Emit(const Value& value);
  absl::Status Assign(const ast::Target& target, Value value);

  // Expressions.
  absl::StatusOr<Value> Evaluate(const ast::Expr& expr);
  absl::StatusOr<bool> IsTrue(const ast::Expr& expr);
  // None for null.
  absl::StatusOr<Value> EvaluateBound(const ast::ExprPtr& expr);
  absl::StatusOr<Arguments> Evaluate(const ast::CallArguments& arguments);
  absl::StatusOr<std::vector<Value>> Evaluate(const std::vector<ast::ExprPtr>& exprs);
  absl::StatusOr<Value> Get(const ast::Constant& node) { return node.value; }
  absl::StatusOr<Value> Get(const ast::Name& node);
  absl::StatusOr<Value> Get(const ast::LoopAttribute& node);
  absl::StatusOr<Value> Get(const ast::LoopDefined& node);
  absl::StatusOr<Value> Get(const ast::Captured& node);
  absl::StatusOr<Value> Get(const ast::Sequence& node);
  absl::StatusOr<Value> Get(const ast::DictLiteral& node);
  absl::StatusOr<Value> Get(const ast::Not& node);
  absl::StatusOr<Value> Get(const ast::Sign& node);
  absl::StatusOr<Value> Get(const ast::Logic& node);
  absl::StatusOr<Value> Get(const ast::Binary& node);
  absl::StatusOr<Value> Get(const ast::Comparisons& node);
  absl::StatusOr<Value> Get(const ast::Concat& node);
  absl::StatusOr<Value> Get(const ast::Conditional& node);
  absl::StatusOr<Value> Get(const ast::GetAttribute& node);
  absl::StatusOr<Value> Get(const ast::GetItem& node);
  absl::StatusOr<Value> Get(const ast::GetSlice& node);
  absl::StatusOr<Value> Get(const ast::Call& node);
  absl::StatusOr<Value> Get(const ast::ApplyFilter& node);
  absl::StatusOr<Value> Get(const ast::ApplyTest& node);
  absl::StatusOr<Value> CallMacro(const ast::Macro& macro, const Arguments& arguments);
  absl::Status BindParameters(const ast::Macro& macro, const Arguments& arguments, Scope& scope);
  absl::StatusOr<Value> MakeNamespace(const Arguments& arguments);
  Value Lookup(const std::string& name) const;

  absl::Status CheckDepth() const;
  // The first error gets the line where it happened.
  absl::Status Locate(const absl::Status& error, int line);

  const Variables& variables_;
  const TimeFormatter& now_;
  Budget budget_;
  Scope root_;
  Scope* scope_;                     // where names are set now
  Loop* loop_ = nullptr;             // what `loop` means now
  Text* output_ = nullptr;           // where text goes now
  const Value* captured_ = nullptr;  // what Captured means now
  int depth_ = 0;
  bool located_ = false;
  std::vector<std::shared_ptr<Namespace>> spaces_;  // every one made
};

}  // namespace qanat::text::jinja
