#include "inference/jinja/evaluator.h"

#include <algorithm>

#include "inference/jinja/access.h"
#include "inference/jinja/compare.h"
#include "inference/jinja/library.h"
#include "inference/jinja/loop.h"
#include "inference/jinja/namespace.h"
#include "inference/jinja/print.h"

namespace turnbench::jinja {
namespace {

/// A macro, or the body of a call block, as a value.
class Macro : public Object {
 public:
  Macro(Evaluator& evaluator, std::shared_ptr<const MacroBody> body, std::shared_ptr<Scope> scope)
      : evaluator_(evaluator), body_(std::move(body)), scope_(std::move(scope)) {}

  std::string type_name() const override { return "Macro"; }
  bool is_callable() const override { return true; }
  bool print(TextBuilder& out) const override {
    out.add("<Macro '" + body_->name + "'>");
    return true;
  }
  std::optional<Value> attribute(std::string_view name) override {
    if (name == "name") return Value::text(body_->name);
    return std::nullopt;
  }
  Value call(Runtime&, Arguments arguments) override {
    return evaluator_.run_macro(*body_, scope_, std::move(arguments));
  }

 private:
  Evaluator& evaluator_;
  std::shared_ptr<const MacroBody> body_;
  std::shared_ptr<Scope> scope_;
};

/// Takes the argument of a name.
std::optional<Value> take_named(Arguments& arguments, std::string_view name) {
  const auto found =
      std::ranges::find_if(arguments.named, [&](const auto& entry) { return entry.first == name; });
  if (found == arguments.named.end()) return std::nullopt;
  Value out = std::move(found->second);
  arguments.named.erase(found);
  return out;
}

}  // namespace

Evaluator::Evaluator(const Source& source, Runtime& runtime, const Dict& variables)
    : source_(source),
      runtime_(runtime),
      budget_(runtime.budget),
      variables_(variables),
      scope_(std::make_shared<Scope>(nullptr)) {
  runtime_.keep(scope_);
}

template <typename Work>
auto Evaluator::placed(Place place, const Work& work) -> decltype(work()) {
  try {
    return work();
  } catch (const Complaint& complaint) {
    throw source_.error(place, complaint.what());
  }
}

template <typename Work>
auto Evaluator::scoped(const std::shared_ptr<Scope>& parent, const Work& work) {
  struct Restore {
    std::shared_ptr<Scope>& scope;
    std::shared_ptr<Scope> outer;
    ~Restore() { scope = std::move(outer); }
  };
  const Restore restore{scope_, std::exchange(scope_, std::make_shared<Scope>(parent))};
  return work();
}

template <typename Work>
Text Evaluator::captured(const Work& work) {
  struct Restore {
    TextBuilder*& out;
    TextBuilder* outer;
    ~Restore() { out = outer; }
  };
  TextBuilder inner(budget_);
  const Restore restore{out_, std::exchange(out_, &inner)};
  work();
  return inner.finish();
}

Text Evaluator::render(const Body& body) {
  return captured([&] { run(body); });
}

// Expressions

Value Evaluator::value(const Expression& expression) {
  return placed(expression.place, [&] {
    const Budget::Level level(budget_);
    budget_.steps(1);
    return std::visit([&](const auto& node) { return value_of(node); }, expression.node);
  });
}

Value Evaluator::value_of(const Literal& node) {
  return node.constant;
}

Value Evaluator::value_of(const Name& node) {
  if (const Value* found = scope_->find(node.name)) return *found;
  budget_.steps(variables_.items.size() / 8);
  if (const Value* found = find(variables_, node.name)) return *found;
  if (auto global = find_global(node.name)) return *global;
  return Value::undefined("'" + node.name + "' is undefined");
}

Value Evaluator::value_of(const SequenceLiteral& node) {
  std::vector<Value> items;
  budget_.elements(node.items.size());
  for (const ExpressionPointer& item : node.items) items.push_back(value(*item));
  return node.is_tuple ? Value::tuple(std::move(items)) : Value::list(std::move(items));
}

Value Evaluator::value_of(const DictLiteral& node) {
  std::vector<std::pair<Value, Value>> items;
  for (const auto& [key, item] : node.items) {
    Value name = value(*key);
    insert(items, std::move(name), value(*item), budget_);
  }
  return Value::dict(std::move(items));
}

Value Evaluator::value_of(const AttributeOf& node) {
  return attribute(value(*node.object), node.name, budget_);
}

Value Evaluator::value_of(const ItemOf& node) {
  const Value object = value(*node.object);
  return item(object, value(*node.key), budget_);
}

Value Evaluator::value_of(const SliceOf& node) {
  const auto bound = [&](const ExpressionPointer& part) {
    return part ? value(*part) : Value(None{});
  };
  const Value object = value(*node.object), start = bound(node.start), stop = bound(node.stop);
  return slice(object, start, stop, bound(node.step), budget_);
}

Value Evaluator::value_of(const CallOf& node) {
  return call(node, std::nullopt);
}

Value Evaluator::value_of(const Filtered& node) {
  const Value in = value(*node.value);
  return runtime_.filter(node.name, in, arguments(node.arguments));
}

Value Evaluator::value_of(const Tested& node) {
  const Value in = value(*node.value);
  return runtime_.test(node.name, in, arguments(node.arguments));
}

Value Evaluator::value_of(const Unary& node) {
  const Value operand = value(*node.operand);
  switch (node.op) {
    case UnaryOperator::kNot:
      return !truth(operand);
    case UnaryOperator::kNegative:
      return negative(operand);
    case UnaryOperator::kPositive:
      return positive(operand);
  }
  return {};
}

Value Evaluator::value_of(const Binary& node) {
  const Value left = value(*node.left);
  return calculate(node.op, left, value(*node.right), budget_);
}

Value Evaluator::value_of(const Logical& node) {
  Value left = value(*node.left);
  return truth(left) == node.is_and ? value(*node.right) : left;
}

bool Evaluator::holds(Comparison comparison, const Value& left, const Value& right) {
  switch (comparison) {
    case Comparison::kEqual:
      return equal(left, right, budget_);
    case Comparison::kNotEqual:
      return !equal(left, right, budget_);
    case Comparison::kLess:
      return order(left, right, budget_) < 0;
    case Comparison::kAtMost:
      return order(left, right, budget_) <= 0;
    case Comparison::kGreater:
      return order(left, right, budget_) > 0;
    case Comparison::kAtLeast:
      return order(left, right, budget_) >= 0;
    case Comparison::kIn:
      return contains(right, left, budget_);
    case Comparison::kNotIn:
      return !contains(right, left, budget_);
  }
  return false;
}

Value Evaluator::value_of(const Compared& node) {
  Value left = value(*node.first);
  for (const auto& [comparison, other] : node.others) {
    Value right = value(*other);
    if (!holds(comparison, left, right)) return false;
    left = std::move(right);
  }
  return true;
}

Value Evaluator::value_of(const Concatenated& node) {
  TextBuilder out(budget_);
  for (const ExpressionPointer& part : node.parts) print(value(*part), out);
  return out.finish();
}

Value Evaluator::value_of(const Conditional& node) {
  if (truth(value(*node.test))) return value(*node.yes);
  if (node.no) return value(*node.no);
  return Value::undefined("the inline if-expression was false and has no else");
}

Arguments Evaluator::arguments(const ArgumentList& list) {
  Arguments out;
  for (const ExpressionPointer& item : list.values) out.values.push_back(value(*item));
  if (list.more_values) {
    for (Value& item : values_of(value(*list.more_values), budget_)) {
      out.values.push_back(std::move(item));
    }
  }
  const auto add = [&](std::string_view name, Value item) {
    budget_.steps(1 + out.named.size() / 8);
    if (std::ranges::any_of(out.named, [&](const auto& entry) { return entry.first == name; })) {
      throw complaint("found two arguments {}, expected one", name);
    }
    out.named.emplace_back(name, std::move(item));
  };
  for (const auto& [name, item] : list.named) add(name, value(*item));
  if (list.more_named) {
    const Value names = value(*list.more_named);
    if (!names.is(Kind::kDict)) throw complaint("found {}, expected a dict", describe(names));
    for (const auto& [name, item] : names.as_dict().items) {
      if (!name.is(Kind::kString)) throw complaint("found {}, expected a name", describe(name));
      add(name.bytes(), item);
    }
  }
  return out;
}

Value Evaluator::call(const CallOf& node, std::optional<Value> caller) {
  const Value callee = value(*node.callee);
  Arguments given = arguments(node.arguments);
  if (caller) given.named.emplace_back("caller", std::move(*caller));
  return runtime_.call(callee, std::move(given));
}

// Statements

Evaluator::Flow Evaluator::run(const Body& body) {
  for (const Statement& statement : body) {
    const Flow flow = run(statement);
    if (flow != Flow::kOn) return flow;
  }
  return Flow::kOn;
}

Evaluator::Flow Evaluator::run(const Statement& statement) {
  return placed(statement.place, [&] {
    const Budget::Level level(budget_);
    budget_.steps(1);
    return std::visit([&](const auto& node) { return run_node(node); }, statement.node);
  });
}

Evaluator::Flow Evaluator::run_node(const Data& node) {
  out_->add(*node.text);
  return Flow::kOn;
}

Evaluator::Flow Evaluator::run_node(const Output& node) {
  const Value printed = value(*node.value);
  print(printed, *out_);
  return Flow::kOn;
}

Evaluator::Flow Evaluator::run_node(const If& node) {
  for (const auto& [test, body] : node.branches) {
    if (truth(value(*test))) return run(body);
  }
  return run(node.otherwise);
}

Evaluator::Flow Evaluator::run_node(const For& node) {
  return run_loop(node, value(*node.values), 0);
}

std::shared_ptr<Iterator> Evaluator::tested(const For& node, std::shared_ptr<Iterator> values) {
  const int depth = values->depth();
  auto next = [this, &node, values = std::move(values), outer = scope_]() -> std::optional<Value> {
    while (auto candidate = values->next()) {
      const bool taken = scoped(outer, [&] {
        assign(node.target, *candidate);
        return truth(value(*node.test));
      });
      if (taken) return candidate;
    }
    return std::nullopt;
  };
  return std::make_shared<Iterator>(std::move(next), depth);
}

Evaluator::Flow Evaluator::run_loop(const For& node, const Value& values, std::size_t depth) {
  std::shared_ptr<Iterator> source = iterate(values, budget_);
  std::optional<std::size_t> count = length(values);
  if (node.test) {
    source = tested(node, std::move(source));
    count = std::nullopt;
  }
  Loop::Recurse recurse;
  const std::shared_ptr<Scope> outer = scope_;
  if (node.recursive) {
    recurse = [this, &node, outer](const Value& inner, std::size_t level) -> Value {
      return captured([&] {
        const std::shared_ptr<Scope> here = std::exchange(scope_, outer);
        run_loop(node, inner, level);
        scope_ = here;
      });
    };
  }
  const auto loop = std::make_shared<Loop>(source, count, std::move(recurse), depth, budget_);
  bool any = false;
  while (auto next = loop->next()) {
    any = true;
    const Flow flow = scoped(outer, [&] {
      scope_->set("loop", Value(std::shared_ptr<Object>(loop)));
      assign(node.target, std::move(*next));
      return run(node.body);
    });
    if (flow == Flow::kBreak) break;
  }
  if (any) return Flow::kOn;
  return scoped(outer, [&] { return run(node.otherwise); });
}

Evaluator::Flow Evaluator::run_node(const Set& node) {
  assign(node.target, value(*node.value));
  return Flow::kOn;
}

Evaluator::Flow Evaluator::run_node(const SetBlock& node) {
  Flow flow = Flow::kOn;
  Text text = captured([&] { flow = scoped(scope_, [&] { return run(node.body); }); });
  if (flow == Flow::kOn) assign(node.target, filtered(node.filters, std::move(text)));
  return flow;
}

void Evaluator::assign(const Target& target, Value value) {
  if (target.is_tuple) {
    std::vector<Value> parts = values_of(value, budget_);
    if (parts.size() != target.targets.size()) {
      throw complaint("found {} values to unpack, expected {}", parts.size(),
                      target.targets.size());
    }
    for (std::size_t i = 0; i < parts.size(); ++i) assign(target.targets[i], std::move(parts[i]));
    return;
  }
  if (target.attribute.empty()) {
    scope_->set(target.name, std::move(value));
    return;
  }
  const Value object = value_of(Name{target.name});
  if (object.is(Kind::kUndefined)) refuse_undefined(object);
  Namespace* attributes =
      object.is(Kind::kObject) ? dynamic_cast<Namespace*>(object.as_object().get()) : nullptr;
  if (attributes == nullptr) throw complaint("found {}, expected a namespace", describe(object));
  attributes->set(target.attribute, std::move(value), budget_);
}

void Evaluator::write_string(const Value& value) {
  if (!value.is(Kind::kString)) {
    throw complaint("found {} as what a block writes, expected a string", describe(value));
  }
  out_->add(value.as_text());
}

Value Evaluator::filtered(const std::vector<Filtered>& filters, Value value) {
  for (const Filtered& filter : filters) {
    value = runtime_.filter(filter.name, value, arguments(filter.arguments));
  }
  return value;
}

Value Evaluator::macro(const std::shared_ptr<const MacroBody>& body) {
  runtime_.keep(scope_);
  return Value(std::make_shared<Macro>(*this, body, scope_));
}

Evaluator::Flow Evaluator::run_node(const MacroDefinition& node) {
  scope_->set(node.macro->name, macro(node.macro));
  return Flow::kOn;
}

Evaluator::Flow Evaluator::run_node(const CallBlock& node) {
  const Value caller = macro(node.caller);
  write_string(call(std::get<CallOf>(node.call->node), caller));
  return Flow::kOn;
}

Evaluator::Flow Evaluator::run_node(const FilterBlock& node) {
  Flow flow = Flow::kOn;
  Text text = captured([&] { flow = scoped(scope_, [&] { return run(node.body); }); });
  if (flow == Flow::kOn) write_string(filtered(node.filters, std::move(text)));
  return flow;
}

Evaluator::Flow Evaluator::run_node(const With& node) {
  std::vector<Value> values;
  for (const auto& [target, expression] : node.targets) values.push_back(value(*expression));
  return scoped(scope_, [&] {
    for (std::size_t i = 0; i < values.size(); ++i) {
      assign(node.targets[i].first, std::move(values[i]));
    }
    return run(node.body);
  });
}

Value Evaluator::run_macro(const MacroBody& macro, const std::shared_ptr<Scope>& definition,
                           Arguments given) {
  return captured([&] {
    scoped(definition, [&] {
      const std::size_t parameters = macro.parameters.size();
      bool explicit_caller = false;
      std::vector<std::size_t> missing;
      for (std::size_t i = 0; i < parameters; ++i) {
        const std::string& name = macro.parameters[i].first;
        explicit_caller = explicit_caller || name == "caller";
        std::optional<Value> argument =
            i < given.values.size() ? std::optional(given.values[i]) : take_named(given, name);
        if (!argument) {
          missing.push_back(i);
          argument = Value::undefined("parameter '" + name + "' was not provided");
        }
        scope_->set(name, std::move(*argument));
      }
      // A default sees all the parameters, itself undefined.
      for (const std::size_t i : missing) {
        const auto& [name, fallback] = macro.parameters[i];
        if (fallback) scope_->set(name, value(*fallback));
      }
      if (macro.takes_caller && !explicit_caller) {
        auto caller = take_named(given, "caller");
        scope_->set("caller", caller ? *caller : Value::undefined("no caller defined"));
      }
      if (macro.takes_names) {
        std::vector<std::pair<Value, Value>> names;
        for (auto& [name, item] : given.named) {
          insert(names, Value::text(name), std::move(item), budget_);
        }
        scope_->set("kwargs", Value::dict(std::move(names)));
      } else if (!given.named.empty()) {
        throw complaint("found the argument {} for the macro {}, expected none of that name",
                        given.named[0].first, macro.name);
      }
      if (macro.takes_values) {
        const std::size_t used = std::min(parameters, given.values.size());
        scope_->set("varargs",
                    Value::tuple({given.values.begin() + static_cast<std::ptrdiff_t>(used),
                                  given.values.end()}));
      } else if (given.values.size() > parameters) {
        throw complaint("found {} arguments for the macro {}, expected at most {}",
                        given.values.size(), macro.name, parameters);
      }
      run(macro.body);
    });
  });
}

}  // namespace turnbench::jinja
