#pragma once

#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "inference/jinja/arithmetic.h"
#include "inference/jinja/source.h"
#include "inference/jinja/value.h"

namespace turnbench::jinja {

/// The syntax tree of a template.

struct Expression;
using ExpressionPointer = std::unique_ptr<const Expression>;

struct ArgumentList {
  std::vector<ExpressionPointer> values{};
  std::vector<std::pair<std::string, ExpressionPointer>> named{};
  ExpressionPointer more_values{}, more_named{};  ///< *values and **named, or nullptr
};

struct Literal {
  Value constant;
};

struct Name {
  std::string name;
};

struct SequenceLiteral {
  bool is_tuple = false;
  std::vector<ExpressionPointer> items;
};

struct DictLiteral {
  std::vector<std::pair<ExpressionPointer, ExpressionPointer>> items;
};

/// `object.name`
struct AttributeOf {
  ExpressionPointer object;
  std::string name;
};

/// `object[key]`
struct ItemOf {
  ExpressionPointer object, key;
};

/// `object[start:stop:step]`; nullptr for what is left out.
struct SliceOf {
  ExpressionPointer object, start, stop, step;
};

struct CallOf {
  ExpressionPointer callee;
  ArgumentList arguments;
};

/// `value|name(arguments)`; the value is nullptr for the text of a block.
struct Filtered {
  ExpressionPointer value;
  std::string name;
  ArgumentList arguments;
};

/// `value is name(arguments)`
struct Tested {
  ExpressionPointer value;
  std::string name;
  ArgumentList arguments;
};

enum class UnaryOperator { kNot, kNegative, kPositive };

struct Unary {
  UnaryOperator op;
  ExpressionPointer operand;
};

struct Binary {
  Operator op;
  ExpressionPointer left, right;
};

/// `left and right`, `left or right`
struct Logical {
  bool is_and;
  ExpressionPointer left, right;
};

enum class Comparison { kEqual, kNotEqual, kLess, kAtMost, kGreater, kAtLeast, kIn, kNotIn };

/// `first < second <= third ...`
struct Compared {
  ExpressionPointer first;
  std::vector<std::pair<Comparison, ExpressionPointer>> others;
};

/// `a ~ b ~ c`
struct Concatenated {
  std::vector<ExpressionPointer> parts;
};

/// `yes if test else no`; `no` may be nullptr.
struct Conditional {
  ExpressionPointer test, yes, no;
};

struct Expression {
  using Node = std::variant<Literal, Name, SequenceLiteral, DictLiteral, AttributeOf, ItemOf,
                            SliceOf, CallOf, Filtered, Tested, Unary, Binary, Logical, Compared,
                            Concatenated, Conditional>;
  Node node;
  Place place;
  int height = 1;  ///< of the tree below, itself included
};

struct Statement;
using Body = std::vector<Statement>;

/// What is assigned to: a name, an attribute of a namespace, or a tuple of targets.
struct Target {
  std::string name{};
  std::string attribute{};
  bool is_tuple = false;
  std::vector<Target> targets{};
};

/// Text between tags.
struct Data {
  std::shared_ptr<const Text> text;
};

/// `{{ value }}`
struct Output {
  ExpressionPointer value;
};

struct If {
  std::vector<std::pair<ExpressionPointer, Body>> branches;
  Body otherwise;
};

/// `{% for target in values if test %}`
struct For {
  Target target;
  ExpressionPointer values, test;
  Body body, otherwise;
  bool recursive = false;
};

struct Set {
  Target target;
  ExpressionPointer value;
};

/// `{% set target | filters %}...{% endset %}`
struct SetBlock {
  Target target;
  std::vector<Filtered> filters;
  Body body;
};

/// Parameters and body of a macro, or of a call block.
struct MacroBody {
  std::string name;
  std::vector<std::pair<std::string, ExpressionPointer>> parameters;  ///< with defaults or nullptr
  Body body;
  bool takes_caller = false, takes_values = false, takes_names = false;  ///< since it names them
};

struct MacroDefinition {
  std::shared_ptr<const MacroBody> macro;
};

/// `{% call(parameters) callee(arguments) %}...{% endcall %}`
struct CallBlock {
  std::shared_ptr<const MacroBody> caller;
  ExpressionPointer call;
};

struct FilterBlock {
  std::vector<Filtered> filters;
  Body body;
};

/// `{% with a = 1 %}`, and transformers' `{% generation %}`, which has no targets.
struct With {
  std::vector<std::pair<Target, ExpressionPointer>> targets;
  Body body;
};

struct Break {};
struct Continue {};

struct Statement {
  using Node = std::variant<Data, Output, If, For, Set, SetBlock, MacroDefinition, CallBlock,
                            FilterBlock, With, Break, Continue>;
  Node node;
  Place place;
};

}  // namespace turnbench::jinja
