#pragma once

#include "inference/jinja/runtime.h"
#include "inference/jinja/scope.h"
#include "inference/jinja/syntax.h"

namespace turnbench::jinja {

/// One rendering of a template: what its expressions are worth and its statements write.
class Evaluator {
 public:
  Evaluator(const Source& source, Runtime& runtime, const Dict& variables);

  /// The text that the statements write.
  Text render(const Body& body);
  /// What a macro writes when it is called with these arguments, seen from where it was defined.
  Value run_macro(const MacroBody& macro, const std::shared_ptr<Scope>& definition,
                  Arguments arguments);

 private:
  /// Where a statement goes on: behind itself, or behind or at the head of the loop around it.
  enum class Flow { kOn, kBreak, kContinue };

  Value value(const Expression& expression);
  Value value_of(const Literal& node);
  Value value_of(const Name& node);
  Value value_of(const SequenceLiteral& node);
  Value value_of(const DictLiteral& node);
  Value value_of(const AttributeOf& node);
  Value value_of(const ItemOf& node);
  Value value_of(const SliceOf& node);
  Value value_of(const CallOf& node);
  Value value_of(const Filtered& node);
  Value value_of(const Tested& node);
  Value value_of(const Unary& node);
  Value value_of(const Binary& node);
  Value value_of(const Logical& node);
  Value value_of(const Compared& node);
  Value value_of(const Concatenated& node);
  Value value_of(const Conditional& node);
  bool holds(Comparison comparison, const Value& left, const Value& right);
  Arguments arguments(const ArgumentList& list);
  Value call(const CallOf& node, std::optional<Value> caller);

  Flow run(const Body& body);
  Flow run(const Statement& statement);
  Flow run_node(const Data& node);
  Flow run_node(const Output& node);
  Flow run_node(const If& node);
  Flow run_node(const For& node);
  Flow run_node(const Set& node);
  Flow run_node(const SetBlock& node);
  Flow run_node(const MacroDefinition& node);
  Flow run_node(const CallBlock& node);
  Flow run_node(const FilterBlock& node);
  Flow run_node(const With& node);
  Flow run_node(const Break&) { return Flow::kBreak; }
  Flow run_node(const Continue&) { return Flow::kContinue; }

  Flow run_loop(const For& node, const Value& values, std::size_t depth);
  /// The values of a `for` that its test takes.
  std::shared_ptr<Iterator> tested(const For& node, std::shared_ptr<Iterator> values);
  void assign(const Target& target, Value value);
  /// What filter and call blocks write: Jinja2 converts nothing there.
  void write_string(const Value& value);
  Value filtered(const std::vector<Filtered>& filters, Value value);
  Value macro(const std::shared_ptr<const MacroBody>& body);

  /// Runs `work` in a new scope within `parent`.
  template <typename Work>
  auto scoped(const std::shared_ptr<Scope>& parent, const Work& work);
  /// What `work` writes.
  template <typename Work>
  Text captured(const Work& work);
  /// Gives what `work` refuses its place.
  template <typename Work>
  auto placed(Place place, const Work& work) -> decltype(work());

  const Source& source_;
  Runtime& runtime_;
  Budget& budget_;
  const Dict& variables_;
  std::shared_ptr<Scope> scope_;
  TextBuilder* out_ = nullptr;
};

}  // namespace turnbench::jinja
