#include "common/text/jinja/interpreter.h"

#include <utility>

#include "common/base/error.h"
#include "common/base/status_macros.h"
#include "common/text/jinja/access.h"
#include "common/text/jinja/cat.h"
#include "common/text/jinja/operators.h"
#include "common/text/jinja/printing.h"

namespace qanat::text::jinja {

Interpreter::~Interpreter() {
  // Namespaces may hold each other.
  for (const std::shared_ptr<Namespace>& space : spaces_) space->attributes.clear();
}

absl::StatusOr<Text> Interpreter::Run(const ast::Body& body) {
  Text output;
  output_ = &output;
  QANAT_RETURN_IF_ERROR(Execute(body).status());
  return output;
}

absl::StatusOr<Interpreter::Flow> Interpreter::Execute(const ast::Body& body) {
  for (const auto& statement : body) {
    absl::StatusOr<Flow> flow = Execute(*statement);
    if (!flow.ok()) return Locate(flow.status(), statement->line);
    if (*flow != Flow::kNext) return flow;
  }
  return Flow::kNext;
}

absl::StatusOr<Interpreter::Flow> Interpreter::Execute(const ast::Statement& statement) {
  const Level level(depth_);
  QANAT_RETURN_IF_ERROR(CheckDepth());
  QANAT_RETURN_IF_ERROR(budget_.Spend(1));
  return std::visit([this](const auto& node) { return Do(node); }, statement.node);
}

absl::StatusOr<Interpreter::Flow> Interpreter::Do(const ast::Data& node) {
  QANAT_RETURN_IF_ERROR(Emit(node.text));
  return Flow::kNext;
}

absl::StatusOr<Interpreter::Flow> Interpreter::Do(const ast::Print& node) {
  QANAT_ASSIGN_OR_RETURN(const Value value, Evaluate(*node.value));
  QANAT_RETURN_IF_ERROR(Emit(value));
  return Flow::kNext;
}

absl::StatusOr<Interpreter::Flow> Interpreter::Do(const ast::If& node) {
  for (const auto& [condition, body] : node.branches) {
    QANAT_ASSIGN_OR_RETURN(const bool holds, IsTrue(*condition));
    if (holds) return Execute(body);
  }
  return Execute(node.otherwise);
}

absl::StatusOr<Interpreter::Flow> Interpreter::Do(const ast::For& node) {
  QANAT_ASSIGN_OR_RETURN(const Value source, Evaluate(*node.items));
  QANAT_ASSIGN_OR_RETURN(std::vector<Value> items, Items(source, budget_));
  Scope* const outer_scope = scope_;
  Loop* const outer_loop = loop_;
  Loop::Condition condition;
  if (node.condition != nullptr) {
    condition = [this, &node, outer_scope, outer_loop](const Value& item) -> absl::StatusOr<bool> {
      Scope scope{outer_scope, {}};
      const Swap<Scope*> in_scope(scope_, &scope);
      const Swap<Loop*> in_loop(loop_, outer_loop);
      QANAT_RETURN_IF_ERROR(Assign(node.target, item));
      return IsTrue(*node.condition);
    };
  }
  Loop loop(std::move(items), std::move(condition));
  // As in jinja2, an iteration that a break or continue cut short does not count for the else block.
  bool completed_one = false;
  while (true) {
    QANAT_ASSIGN_OR_RETURN(const bool more, loop.Advance());
    if (!more) break;
    Scope scope{outer_scope, {}};
    const Swap<Scope*> in_scope(scope_, &scope);
    const Swap<Loop*> in_loop(loop_, &loop);
    QANAT_RETURN_IF_ERROR(Assign(node.target, loop.current()));
    QANAT_ASSIGN_OR_RETURN(const Flow flow, Execute(node.body));
    if (flow == Flow::kBreak) break;
    if (flow == Flow::kNext) completed_one = true;
  }
  if (completed_one) return Flow::kNext;
  Scope scope{outer_scope, {}};
  const Swap<Scope*> in_scope(scope_, &scope);
  return Execute(node.otherwise);
}

absl::StatusOr<Interpreter::Flow> Interpreter::Do(const ast::Set& node) {
  QANAT_ASSIGN_OR_RETURN(Value value, Evaluate(*node.value));
  QANAT_RETURN_IF_ERROR(Assign(node.target, std::move(value)));
  return Flow::kNext;
}

absl::StatusOr<Interpreter::Flow> Interpreter::Do(const ast::SetBlock& node) {
  Flow flow = Flow::kNext;
  QANAT_ASSIGN_OR_RETURN(std::optional<Value> value, Capture(node.body, *node.value, flow));
  if (value.has_value()) QANAT_RETURN_IF_ERROR(Assign(node.target, *std::move(value)));
  return flow;
}

absl::StatusOr<Interpreter::Flow> Interpreter::Do(const ast::FilterBlock& node) {
  Flow flow = Flow::kNext;
  QANAT_ASSIGN_OR_RETURN(const std::optional<Value> value, Capture(node.body, *node.value, flow));
  if (value.has_value()) QANAT_RETURN_IF_ERROR(Emit(*value));
  return flow;
}

absl::StatusOr<std::optional<Value>> Interpreter::Capture(const ast::Body& body, const ast::Expr& value,
                                                          Flow& flow) {
  Scope scope{scope_, {}};
  const Swap<Scope*> in_scope(scope_, &scope);
  Text text;
  {
    const Swap<Text*> into(output_, &text);
    QANAT_ASSIGN_OR_RETURN(flow, Execute(body));
  }
  if (flow != Flow::kNext) return std::nullopt;
  const Value captured = Value::Str(std::move(text));
  const Swap<const Value*> in_capture(captured_, &captured);
  return Evaluate(value);
}

absl::StatusOr<Interpreter::Flow> Interpreter::Do(const ast::With& node) {
  Scope scope{scope_, {}};
  for (const auto& [target, expr] : node.bindings) {
    QANAT_ASSIGN_OR_RETURN(Value value, Evaluate(*expr));
    const Swap<Scope*> in_scope(scope_, &scope);
    QANAT_RETURN_IF_ERROR(Assign(target, std::move(value)));
  }
  const Swap<Scope*> in_scope(scope_, &scope);
  return Execute(node.body);
}

absl::StatusOr<Interpreter::Flow> Interpreter::Do(const ast::Macro& node) {
  scope_->names[node.name] = Value::Of(&node);
  return Flow::kNext;
}

absl::StatusOr<Interpreter::Flow> Interpreter::Do(const ast::Generation& node) {
  Scope scope{scope_, {}};
  const Swap<Scope*> in_scope(scope_, &scope);
  return Execute(node.body);
}

absl::Status Interpreter::Emit(const Value& value) {
  QANAT_RETURN_IF_ERROR(AppendStr(value, *output_, budget_));
  const size_t limit = budget_.limits().max_output_bytes;
  if (output_->size() > limit) return LimitError(Cat("the text has more than ", limit, " bytes"));
  return absl::OkStatus();
}

absl::Status Interpreter::Assign(const ast::Target& target, Value value) {
  switch (target.type) {
    case ast::Target::Type::kName:
      scope_->names[target.name] = std::move(value);
      return absl::OkStatus();
    case ast::Target::Type::kAttribute: {
      const Value space = Lookup(target.name);
      if (!space.Is(Kind::kNamespace)) {
        return RenderError(
            Cat("cannot assign to an attribute of '", target.name, "', which is no namespace"));
      }
      space.space().attributes[target.attribute] = std::move(value);
      return absl::OkStatus();
    }
    case ast::Target::Type::kTuple:
      break;
  }
  QANAT_ASSIGN_OR_RETURN(std::vector<Value> parts, Items(value, budget_));
  if (parts.size() != target.parts.size()) {
    return RenderError(Cat("cannot unpack ", parts.size(), " values into ", target.parts.size()));
  }
  for (size_t i = 0; i < parts.size(); ++i) {
    QANAT_RETURN_IF_ERROR(Assign(target.parts[i], std::move(parts[i])));
  }
  return absl::OkStatus();
}

absl::Status Interpreter::CheckDepth() const {
  const int limit = budget_.limits().max_call_depth;
  return depth_ > limit ? LimitError(Cat("rendering is nested more than ", limit, " deep"))
                        : absl::OkStatus();
}

absl::Status Interpreter::Locate(const absl::Status& error, int line) {
  if (std::exchange(located_, true)) return error;
  const std::string reason = ReasonOf(error);
  if (reason == kReasonRefused) return error;
  return WithReason(absl::InvalidArgumentError(Cat("line ", line, ": ", std::string(error.message()))),
                    reason);
}

}  // namespace qanat::text::jinja
