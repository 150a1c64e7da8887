// The expression half of the interpreter.
#include <memory>
#include <utility>

#include "common/base/check.h"
#include "common/base/status_macros.h"
#include "common/text/jinja/access.h"
#include "common/text/jinja/cat.h"
#include "common/text/jinja/interpreter.h"
#include "common/text/jinja/methods.h"
#include "common/text/jinja/operators.h"
#include "common/text/jinja/printing.h"

namespace qanat::text::jinja {

absl::StatusOr<Value> Interpreter::Evaluate(const ast::Expr& expr) {
  const Level level(depth_);
  absl::Status status = CheckDepth();
  if (status.ok()) status = budget_.Spend(1);
  if (!status.ok()) return Locate(status, expr.line);
  absl::StatusOr<Value> value = std::visit([this](const auto& node) { return Get(node); }, expr.node);
  if (!value.ok()) return Locate(value.status(), expr.line);
  return value;
}

absl::StatusOr<bool> Interpreter::IsTrue(const ast::Expr& expr) {
  QANAT_ASSIGN_OR_RETURN(const Value value, Evaluate(expr));
  return Truth(value);
}

absl::StatusOr<Value> Interpreter::EvaluateBound(const ast::ExprPtr& expr) {
  return expr == nullptr ? Value::None() : Evaluate(*expr);
}

absl::StatusOr<std::vector<Value>> Interpreter::Evaluate(const std::vector<ast::ExprPtr>& exprs) {
  std::vector<Value> values;
  values.reserve(exprs.size());
  for (const ast::ExprPtr& expr : exprs) {
    QANAT_ASSIGN_OR_RETURN(Value value, Evaluate(*expr));
    values.push_back(std::move(value));
  }
  return values;
}

absl::StatusOr<Arguments> Interpreter::Evaluate(const ast::CallArguments& arguments) {
  Arguments values;
  QANAT_ASSIGN_OR_RETURN(values.positional, Evaluate(arguments.positional));
  for (const auto& [name, expr] : arguments.named) {
    QANAT_ASSIGN_OR_RETURN(Value value, Evaluate(*expr));
    values.named.emplace_back(name, std::move(value));
  }
  return values;
}

Value Interpreter::Lookup(const std::string& name) const {
  for (const Scope* scope = scope_; scope != nullptr; scope = scope->parent) {
    const auto found = scope->names.find(name);
    if (found != scope->names.end()) return found->second;
  }
  const auto variable = variables_.find(name);
  if (variable != variables_.end()) return variable->second;
  const std::optional<Function> function = FindFunction(name);
  if (function.has_value() && (*function != Function::kStrftimeNow || now_ != nullptr))
    return Value::Of(*function);
  return Value::Missing(Cat("'", name, "' is undefined"));
}

absl::StatusOr<Value> Interpreter::Get(const ast::Name& node) { return Lookup(node.name); }

absl::StatusOr<Value> Interpreter::Get(const ast::LoopAttribute& node) {
  if (loop_ == nullptr) return RenderError("'loop' is undefined");
  return loop_->Attribute(node.name);
}

absl::StatusOr<Value> Interpreter::Get(const ast::LoopDefined& node) {
  return loop_ == nullptr ? Value() : Value::Bool(true);
}

absl::StatusOr<Value> Interpreter::Get(const ast::Captured& node) {
  QANAT_CHECK(captured_ != nullptr) << "the parser puts it into blocks only";
  return *captured_;
}

absl::StatusOr<Value> Interpreter::Get(const ast::Sequence& node) {
  QANAT_ASSIGN_OR_RETURN(std::vector<Value> items, Evaluate(node.items));
  return MakeList(node.type, std::move(items), budget_);
}

absl::StatusOr<Value> Interpreter::Get(const ast::DictLiteral& node) {
  auto dict = std::make_shared<Dict>();
  for (const auto& [key_expr, value_expr] : node.entries) {
    QANAT_ASSIGN_OR_RETURN(Value key, Evaluate(*key_expr));
    QANAT_ASSIGN_OR_RETURN(Value value, Evaluate(*value_expr));
    QANAT_RETURN_IF_ERROR(dict->Set(std::move(key), std::move(value)));
  }
  return Value::Of(std::shared_ptr<const Dict>(std::move(dict)));
}

absl::StatusOr<Value> Interpreter::Get(const ast::Not& node) {
  QANAT_ASSIGN_OR_RETURN(const bool holds, IsTrue(*node.operand));
  return Value::Bool(!holds);
}

absl::StatusOr<Value> Interpreter::Get(const ast::Sign& node) {
  QANAT_ASSIGN_OR_RETURN(const Value operand, Evaluate(*node.operand));
  return node.negative ? Negate(operand) : Affirm(operand);
}

absl::StatusOr<Value> Interpreter::Get(const ast::Logic& node) {
  QANAT_ASSIGN_OR_RETURN(Value left, Evaluate(*node.left));
  if (Truth(left) != node.is_and) return left;
  return Evaluate(*node.right);
}

absl::StatusOr<Value> Interpreter::Get(const ast::Binary& node) {
  QANAT_ASSIGN_OR_RETURN(const Value left, Evaluate(*node.left));
  QANAT_ASSIGN_OR_RETURN(const Value right, Evaluate(*node.right));
  return Compute(node.operation, left, right, budget_);
}

absl::StatusOr<Value> Interpreter::Get(const ast::Comparisons& node) {
  QANAT_ASSIGN_OR_RETURN(Value left, Evaluate(*node.first));
  for (const auto& [comparison, expr] : node.rest) {
    QANAT_ASSIGN_OR_RETURN(Value right, Evaluate(*expr));
    QANAT_ASSIGN_OR_RETURN(const bool holds, Compare(comparison, left, right, budget_));
    if (!holds) return Value::Bool(false);
    left = std::move(right);
  }
  return Value::Bool(true);
}

absl::StatusOr<Value> Interpreter::Get(const ast::Concat& node) {
  QANAT_ASSIGN_OR_RETURN(const std::vector<Value> parts, Evaluate(node.parts));
  return Concatenate(parts, budget_);
}

absl::StatusOr<Value> Interpreter::Get(const ast::Conditional& node) {
  QANAT_ASSIGN_OR_RETURN(const bool holds, IsTrue(*node.condition));
  if (holds) return Evaluate(*node.then);
  if (node.otherwise != nullptr) return Evaluate(*node.otherwise);
  return Value::Missing("the inline if-expression was false and has no else");
}

absl::StatusOr<Value> Interpreter::Get(const ast::GetAttribute& node) {
  QANAT_ASSIGN_OR_RETURN(const Value object, Evaluate(*node.object));
  return Attribute(object, node.name, budget_);
}

absl::StatusOr<Value> Interpreter::Get(const ast::GetItem& node) {
  QANAT_ASSIGN_OR_RETURN(const Value object, Evaluate(*node.object));
  QANAT_ASSIGN_OR_RETURN(const Value index, Evaluate(*node.index));
  return Subscript(object, index, budget_);
}

absl::StatusOr<Value> Interpreter::Get(const ast::GetSlice& node) {
  QANAT_ASSIGN_OR_RETURN(const Value object, Evaluate(*node.object));
  QANAT_ASSIGN_OR_RETURN(const Value start, EvaluateBound(node.start));
  QANAT_ASSIGN_OR_RETURN(const Value stop, EvaluateBound(node.stop));
  QANAT_ASSIGN_OR_RETURN(const Value step, EvaluateBound(node.step));
  return Slice(object, start, stop, step, budget_);
}

absl::StatusOr<Value> Interpreter::Get(const ast::ApplyFilter& node) {
  QANAT_ASSIGN_OR_RETURN(const Value input, Evaluate(*node.input));
  QANAT_ASSIGN_OR_RETURN(const Arguments arguments, Evaluate(node.arguments));
  return CallFilter(*node.filter, input, arguments, budget_);
}

absl::StatusOr<Value> Interpreter::Get(const ast::ApplyTest& node) {
  QANAT_ASSIGN_OR_RETURN(const Value input, Evaluate(*node.input));
  QANAT_ASSIGN_OR_RETURN(const Arguments arguments, Evaluate(node.arguments));
  QANAT_ASSIGN_OR_RETURN(const bool holds, CallPredicate(*node.test, input, arguments, budget_));
  return Value::Bool(holds);
}

absl::StatusOr<Value> Interpreter::Get(const ast::Call& node) {
  QANAT_ASSIGN_OR_RETURN(const Value callee, Evaluate(*node.callee));
  QANAT_ASSIGN_OR_RETURN(const Arguments arguments, Evaluate(node.arguments));
  switch (callee.kind()) {
    case Kind::kUndefined:
      return UndefinedError(callee);
    case Kind::kMethod:
      return CallMethod(callee.method(), arguments, budget_);
    case Kind::kMacro:
      return CallMacro(*callee.macro(), arguments);
    case Kind::kFunction:
      if (callee.function() == Function::kNamespace) return MakeNamespace(arguments);
      return CallFunction(callee.function(), arguments, now_, budget_);
    default:
      return RenderError(Cat("'", TypeName(callee), "' object is not callable"));
  }
}

absl::StatusOr<Value> Interpreter::CallMacro(const ast::Macro& macro, const Arguments& arguments) {
  // Macros stand at the top level, so that is what their bodies see beside their parameters.
  Scope scope{&root_, {}};
  const Swap<Scope*> in_scope(scope_, &scope);
  const Swap<Loop*> in_no_loop(loop_, nullptr);
  QANAT_RETURN_IF_ERROR(BindParameters(macro, arguments, scope));
  Text text;
  const Swap<Text*> into(output_, &text);
  QANAT_RETURN_IF_ERROR(Execute(macro.body).status());
  return Value::Str(std::move(text));
}

absl::Status Interpreter::BindParameters(const ast::Macro& macro, const Arguments& arguments, Scope& scope) {
  if (arguments.positional.size() > macro.parameters.size()) {
    return RenderError(Cat("macro '", macro.name, "' takes at most ", macro.parameters.size(), " arguments"));
  }
  for (size_t i = 0; i < arguments.positional.size(); ++i) {
    scope.names[macro.parameters[i].name] = arguments.positional[i];
  }
  for (const auto& [name, value] : arguments.named) {
    const auto known = std::find_if(macro.parameters.begin(), macro.parameters.end(),
                                    [&name = name](const auto& parameter) { return parameter.name == name; });
    if (known == macro.parameters.end()) {
      return RenderError(Cat("macro '", macro.name, "' has no parameter '", name, "'"));
    }
    if (!scope.names.try_emplace(known->name, value).second) {
      return RenderError(Cat("macro '", macro.name, "' got '", name, "' twice"));
    }
  }
  for (const ast::Macro::Parameter& parameter : macro.parameters) {
    if (scope.names.contains(parameter.name)) continue;
    Value value = Value::Missing(Cat("parameter '", parameter.name, "' was not provided"));
    if (parameter.otherwise != nullptr) {
      QANAT_ASSIGN_OR_RETURN(value, Evaluate(*parameter.otherwise));
    }
    scope.names[parameter.name] = std::move(value);
  }
  return absl::OkStatus();
}

absl::StatusOr<Value> Interpreter::MakeNamespace(const Arguments& arguments) {
  // It lives until the end of the rendering.
  constexpr size_t kSteps = 16;
  QANAT_RETURN_IF_ERROR(budget_.Spend(kSteps));
  QANAT_ASSIGN_OR_RETURN(const Value initial, CallFunction(Function::kDict, arguments, now_, budget_));
  auto space = std::make_shared<Namespace>();
  for (const Dict::Entry& entry : initial.dict().entries()) {
    if (entry.key.Is(Kind::kString)) space->attributes[entry.key.bytes()] = entry.value;
  }
  spaces_.push_back(space);
  return Value::Of(std::move(space));
}

}  // namespace qanat::text::jinja
