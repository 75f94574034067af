#include <algorithm>
#include <deque>
#include <functional>

#include "text/jinja/library.h"
#include "text/jinja/operators.h"
#include "text/jinja/print.h"
#include "text/jinja/syntax.h"

namespace turnbench::jinja {
namespace {

/// The variables of a block, followed by those of the enclosing blocks.
class Scope : public Object {
 public:
  explicit Scope(std::shared_ptr<Scope> parent) : parent_(std::move(parent)) {}

  std::string type_name() const override { return "scope"; }
  void forget() override { variables_.clear(); }

  /// The innermost variable of a name, or nullptr.
  const Value* find(std::string_view name) const {
    for (const Scope* scope = this; scope != nullptr; scope = scope->parent_.get()) {
      const auto found = scope->variables_.find(name);
      if (found != scope->variables_.end()) return &found->second;
    }
    return nullptr;
  }
  /// Sets a variable of this scope.
  void set(const std::string& name, Value value) { variables_[name] = std::move(value); }

 private:
  std::shared_ptr<Scope> parent_;
  std::map<std::string, Value, std::less<>> variables_;
};

/// The variable `loop` of a `for`, which also iterates over its values: a test may depend on side
/// effects of the body for earlier values, so that as few values as possible are read ahead.
class Loop : public Object {
 public:
  using Test = std::function<bool(const Value&)>;

  /// `takes` is the `if` of the `for`, or empty.
  Loop(std::shared_ptr<Iterator> values, Test takes, Budget& budget)
      : values_(std::move(values)), takes_(std::move(takes)), budget_(budget) {}

  /// The next value; nullopt at the end.
  std::optional<Value> next() {
    if (is_last()) return std::nullopt;
    ++index_;
    before_ = std::exchange(current_, std::move(ahead_.front()));
    ahead_.pop_front();
    return current_;
  }

  std::string type_name() const override { return "LoopContext"; }
  int depth() const override { return values_->depth(); }
  std::optional<Value> attribute(std::string_view name) override {
    if (name == "index") return Value::size(index_);
    if (name == "index0") return Value::size(index_ - 1);
    if (name == "first") return Value(index_ == 1);
    if (name == "last") return Value(is_last());
    if (name == "length") return Value::size(index_ + left());
    if (name == "revindex") return Value::size(left() + 1);
    if (name == "revindex0") return Value::size(left());
    if (name == "previtem") {
      return before_ ? *before_ : Value::undefined("there is no previous item");
    }
    if (name == "nextitem") {
      return is_last() ? Value::undefined("there is no next item") : ahead_.front();
    }
    if (name == "cycle" || name == "changed" || name == "depth" || name == "depth0") {
      throw complaint("found loop.{}, expected an attribute that this library has", name);
    }
    return std::nullopt;
  }

 private:
  /// Reads one more value ahead; returns false at the end.
  bool take() {
    while (auto value = values_->next()) {
      budget_.steps(1);
      if (takes_ && !takes_(*value)) continue;
      ahead_.push_back(std::move(*value));
      return true;
    }
    return false;
  }

  bool is_last() { return ahead_.empty() && !take(); }

  /// The number of values after the current one, all of which are read ahead.
  std::size_t left() {
    while (take()) budget_.elements(1);
    return ahead_.size();
  }

  std::shared_ptr<Iterator> values_;
  Test takes_;
  Budget& budget_;
  std::size_t index_ = 0;
  std::optional<Value> before_, current_;
  std::deque<Value> ahead_;  // read from values_, not yet returned
};

/// Restores a variable at the end of a block.
template <typename Variable>
class Restore {
 public:
  Restore(Variable& variable, Variable meanwhile)
      : variable_(variable), before_(std::exchange(variable, std::move(meanwhile))) {}
  ~Restore() { variable_ = std::move(before_); }
  Restore(const Restore&) = delete;
  Restore& operator=(const Restore&) = delete;

 private:
  Variable& variable_;
  Variable before_;
};

/// One rendering of a template: evaluates its expressions and executes its statements.
class Evaluator {
 public:
  Evaluator(const Source& source, Runtime& runtime, const Dict& variables)
      : source_(source),
        runtime_(runtime),
        budget_(runtime.budget),
        scope_(std::make_shared<Scope>(nullptr)) {
    runtime_.keep(scope_);
    for (const auto& [name, value] : variables.items) scope_->set(std::string(name.bytes()), value);
  }

  Text render(const Body& body) {
    return captured([&] { run(body); });
  }

 private:
  /// Where execution continues after a statement: with the next one, or by leaving or repeating the
  /// enclosing loop.
  enum class Flow { kOn, kBreak, kContinue };

  /// A macro as a value, which can access the variables of the place of its definition.
  class MacroValue : public Object {
   public:
    MacroValue(Evaluator& evaluator, std::shared_ptr<const Macro> macro)
        : evaluator_(evaluator), macro_(std::move(macro)), scope_(evaluator.scope_) {}

    std::string type_name() const override { return "Macro"; }
    bool is_callable() const override { return true; }
    Value call(Runtime&, Arguments arguments) override {
      return evaluator_.run_macro(*macro_, scope_, std::move(arguments));
    }

   private:
    Evaluator& evaluator_;
    std::shared_ptr<const Macro> macro_;
    std::shared_ptr<Scope> scope_;
  };

  /// Adds the place to a Complaint of `work`.
  template <typename Work>
  auto placed(Place place, const Work& work) -> decltype(work()) {
    try {
      return work();
    } catch (const Complaint& complaint) {
      throw source_.error(place, complaint.what());
    }
  }

  /// Runs `work` in a new scope within `parent`.
  template <typename Work>
  auto scoped(const std::shared_ptr<Scope>& parent, const Work& work) {
    const Restore restore(scope_, std::make_shared<Scope>(parent));
    return work();
  }

  /// The output of `work`.
  template <typename Work>
  Text captured(const Work& work) {
    TextBuilder inner(budget_);
    const Restore<TextBuilder*> restore(out_, &inner);
    work();
    return inner.finish();
  }

  // Expressions

  Value value(const Expression& expression) {
    return placed(expression.place, [&] {
      const Budget::Level level(budget_);
      budget_.steps(1);
      return value_of(expression);
    });
  }

  Value value_of(const Expression& e) {
    const auto part = [&](std::size_t i) { return value(*e.parts[i]); };
    switch (e.kind) {
      case Expression::Kind::kLiteral:
        return e.constant;
      case Expression::Kind::kName:
        return variable(e.name);
      case Expression::Kind::kList:
        return Value::list(values(e.parts));
      case Expression::Kind::kTuple:
        return Value::tuple(values(e.parts));
      case Expression::Kind::kDict:
        return dict(e);
      case Expression::Kind::kAttribute:
        return attribute(part(0), e.name, budget_);
      case Expression::Kind::kItem: {
        const auto all = values(e.parts);
        return item(all[0], all[1], budget_);
      }
      case Expression::Kind::kSlice: {
        const auto all = values(e.parts);
        return slice(all[0], all[1], all[2], all[3], budget_);
      }
      case Expression::Kind::kCall: {
        const Value callee = part(0);
        return call(runtime_, callee, arguments(e));
      }
      case Expression::Kind::kFilter: {
        const Value in = part(0);
        return filter(runtime_, e.name, in, arguments(e));
      }
      case Expression::Kind::kTest: {
        const Value in = part(0);
        return test(runtime_, e.name, in, arguments(e));
      }
      case Expression::Kind::kNegative:
        return negative(part(0));
      case Expression::Kind::kNot:
        return !truth(part(0));
      case Expression::Kind::kAnd: {
        const Value left = part(0);
        return truth(left) ? part(1) : left;
      }
      case Expression::Kind::kOr: {
        const Value left = part(0);
        return truth(left) ? left : part(1);
      }
      case Expression::Kind::kCalculation: {
        const auto all = values(e.parts);
        return calculate(e.name, all[0], all[1], budget_);
      }
      case Expression::Kind::kComparison:
        return holds(e);
      case Expression::Kind::kText:
        return concatenation(e);
      case Expression::Kind::kConditional:
        if (truth(part(1))) return part(0);
        if (e.parts.size() == 3) return part(2);
        return Value::undefined("the inline if-expression was false and has no else");
    }
    return {};
  }

  Value variable(const std::string& name) {
    if (const Value* found = scope_->find(name)) return *found;
    if (auto global = find_global(name)) return *global;
    return Value::undefined("'" + name + "' is undefined");
  }

  std::vector<Value> values(const std::vector<ExpressionPointer>& parts) {
    std::vector<Value> out;
    budget_.elements(parts.size());
    for (const ExpressionPointer& part : parts) out.push_back(value(*part));
    return out;
  }

  Value dict(const Expression& expression) {
    std::vector<std::pair<Value, Value>> items;
    for (std::size_t i = 0; i < expression.parts.size(); i += 2) {
      Value key = value(*expression.parts[i]);
      insert(items, std::move(key), value(*expression.parts[i + 1]), budget_);
    }
    return Value::dict(std::move(items));
  }

  bool holds(const Expression& comparison) {
    Value left = value(*comparison.parts[0]);
    for (std::size_t i = 0; i < comparison.names.size(); ++i) {
      Value right = value(*comparison.parts[i + 1]);
      if (!compare(comparison.names[i], left, right, budget_)) return false;
      left = std::move(right);
    }
    return true;
  }

  Value concatenation(const Expression& expression) {
    TextBuilder out(budget_);
    for (const Value& part : values(expression.parts)) print(part, out);
    return out.finish();
  }

  /// For a call, a filter or a test: the parts after the first.
  Arguments arguments(const Expression& expression) {
    Arguments out;
    const std::size_t named = expression.parts.size() - expression.names.size();
    for (std::size_t i = 1; i < expression.parts.size(); ++i) {
      Value argument = value(*expression.parts[i]);
      if (i < named) {
        out.values.push_back(std::move(argument));
      } else {
        out.named.emplace_back(expression.names[i - named], std::move(argument));
      }
    }
    return out;
  }

  // Statements

  Flow run(const Body& body) {
    for (const Statement& statement : body) {
      const Flow flow = placed(statement.place, [&] {
        const Budget::Level level(budget_);
        budget_.steps(1);
        return run_one(statement);
      });
      if (flow != Flow::kOn) return flow;
    }
    return Flow::kOn;
  }

  Flow run_one(const Statement& statement) {
    const auto run_scoped = [&] { return scoped(scope_, [&] { return run(statement.body); }); };
    switch (statement.kind) {
      case Statement::Kind::kData:
        out_->add(*statement.text);
        return Flow::kOn;
      case Statement::Kind::kOutput:
        print(value(*statement.value), *out_);
        return Flow::kOn;
      case Statement::Kind::kIf:
        return run(truth(value(*statement.value)) ? statement.body : statement.otherwise);
      case Statement::Kind::kFor:
        return run_for(statement);
      case Statement::Kind::kSet:
        assign(statement.target, value(*statement.value));
        return Flow::kOn;
      case Statement::Kind::kSetBlock:
        assign(statement.target, captured(run_scoped));
        return Flow::kOn;
      case Statement::Kind::kMacro:
        define(statement);
        return Flow::kOn;
      case Statement::Kind::kGeneration:
        return run_scoped();
      case Statement::Kind::kBreak:
        return Flow::kBreak;
      case Statement::Kind::kContinue:
        return Flow::kContinue;
    }
    return Flow::kOn;
  }

  Flow run_for(const Statement& statement) {
    const std::shared_ptr<Scope> outer = scope_;
    Loop::Test takes;
    if (statement.test) {
      takes = [this, outer, &statement](const Value& candidate) {
        return scoped(outer, [&] {
          assign(statement.target, candidate);
          return truth(value(*statement.test));
        });
      };
    }
    const auto values = iterate(value(*statement.value), budget_);
    const auto loop = std::make_shared<Loop>(values, std::move(takes), budget_);
    bool any = false;
    while (auto next = loop->next()) {
      any = true;
      const Flow flow = scoped(outer, [&] {
        scope_->set("loop", Value(loop));
        assign(statement.target, std::move(*next));
        return run(statement.body);
      });
      if (flow == Flow::kBreak) break;
    }
    if (any) return Flow::kOn;
    return scoped(outer, [&] { return run(statement.otherwise); });
  }

  void define(const Statement& statement) {
    runtime_.keep(scope_);
    scope_->set(statement.macro->name, Value(std::make_shared<MacroValue>(*this, statement.macro)));
  }

  void assign(const Target& target, Value value) {
    if (target.unpacks) {
      std::vector<Value> parts = values_of(value, budget_);
      if (parts.size() != target.names.size()) {
        throw complaint("found {} values to unpack, expected {}", parts.size(),
                        target.names.size());
      }
      for (std::size_t i = 0; i < parts.size(); ++i) scope_->set(target.names[i], parts[i]);
      return;
    }
    const std::string& name = target.names[0];
    if (target.attribute.empty()) {
      scope_->set(name, std::move(value));
      return;
    }
    const Value object = variable(name);
    if (object.is(Kind::kUndefined)) refuse_undefined(object);
    Namespace* attributes =
        object.is(Kind::kObject) ? dynamic_cast<Namespace*>(object.as_object().get()) : nullptr;
    if (attributes == nullptr) throw complaint("found {}, expected a namespace", describe(object));
    attributes->set(target.attribute, std::move(value));
  }

  /// The output of a macro called with these arguments, in the scope of its definition.
  Value run_macro(const Macro& macro, const std::shared_ptr<Scope>& definition, Arguments given) {
    const auto& parameters = macro.parameters;
    if (given.values.size() > parameters.size()) {
      throw complaint("found {} arguments for the macro {}, expected at most {}",
                      given.values.size(), macro.name, parameters.size());
    }
    const auto bind = [&] {
      std::vector<bool> missing(parameters.size(), false);
      for (std::size_t i = 0; i < parameters.size(); ++i) {
        const std::string& name = parameters[i].first;
        const auto named =
            std::ranges::find(given.named, name, [](auto& entry) { return entry.first; });
        if (i < given.values.size()) {
          scope_->set(name, given.values[i]);
        } else if (named != given.named.end()) {
          scope_->set(name, named->second);
          given.named.erase(named);
        } else {
          scope_->set(name, Value::undefined("parameter '" + name + "' was not provided"));
          missing[i] = true;
        }
      }
      if (!given.named.empty()) {
        throw complaint("found the argument {} for the macro {}, expected none of that name",
                        given.named[0].first, macro.name);
      }
      // A default can access all parameters; its own is undefined.
      for (std::size_t i = 0; i < parameters.size(); ++i) {
        const auto& [name, fallback] = parameters[i];
        if (missing[i] && fallback) scope_->set(name, value(*fallback));
      }
    };
    return captured([&] {
      scoped(definition, [&] {
        bind();
        run(macro.body);
      });
    });
  }

  const Source& source_;
  Runtime& runtime_;
  Budget& budget_;
  std::shared_ptr<Scope> scope_;
  TextBuilder* out_ = nullptr;
};

}  // namespace

Text evaluate(const Source& source, const Body& body, const Dict& variables, Runtime& runtime) {
  return Evaluator(source, runtime, variables).render(body);
}

}  // namespace turnbench::jinja
