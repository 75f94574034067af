#include "inference/jinja/expression_parser.h"

#include "common/python_text.h"
#include "inference/jinja/library.h"

namespace turnbench::jinja {
namespace {

constexpr int kDeepestNesting = 300;  // a bracket is three levels, a block or `not` is one
constexpr int kHighestTree = 300;     // also a + b + c ... is a tree

/// Calls `visit` with each expression that a node holds.
template <typename Visit>
void for_each_child(const Expression::Node& node, const Visit& visit) {
  std::visit(
      [&](const auto& n) {
        if constexpr (requires { n.object; }) visit(n.object);
        if constexpr (requires { n.key; }) visit(n.key);
        if constexpr (requires { n.start; }) {
          for (const auto* part : {&n.start, &n.stop, &n.step}) visit(*part);
        }
        if constexpr (requires { n.callee; }) visit(n.callee);
        if constexpr (requires { n.value; }) visit(n.value);
        if constexpr (requires { n.operand; }) visit(n.operand);
        if constexpr (requires { n.left; }) {
          visit(n.left);
          visit(n.right);
        }
        if constexpr (requires { n.first; }) {
          visit(n.first);
          for (const auto& [op, other] : n.others) visit(other);
        }
        if constexpr (requires { n.yes; }) {
          for (const auto* part : {&n.test, &n.yes, &n.no}) visit(*part);
        }
        if constexpr (requires { n.parts; }) {
          for (const auto& part : n.parts) visit(part);
        }
        if constexpr (requires { n.is_tuple; }) {
          for (const auto& item : n.items) visit(item);
        } else if constexpr (requires { n.items; }) {
          for (const auto& [key, item] : n.items) {
            visit(key);
            visit(item);
          }
        }
        if constexpr (requires { n.arguments; }) {
          for (const auto& value : n.arguments.values) visit(value);
          for (const auto& [name, value] : n.arguments.named) visit(value);
          visit(n.arguments.more_values);
          visit(n.arguments.more_named);
        }
      },
      node);
}

}  // namespace

ExpressionParser::Level::Level(ExpressionParser& parser) : parser_(parser) {
  if (parser_.depth_ == kDeepestNesting) {
    parser_.tokens_.fail("at most " + std::to_string(kDeepestNesting) + " levels of nesting");
  }
  ++parser_.depth_;
}

void ExpressionParser::require_known() {
  if (unknown_.empty()) return;
  const Unknown first = unknown_.front();
  tokens_.refuse(first.place, first.expected);
}

ExpressionPointer ExpressionParser::make(std::size_t begin, Expression::Node node) {
  int height = 0;
  for_each_child(node, [&](const ExpressionPointer& child) {
    if (child) height = std::max(height, child->height);
  });
  const Place place{begin, tokens_.end()};
  if (height >= kHighestTree) {
    tokens_.refuse(place, "an expression of fewer parts");
  }
  return std::make_unique<const Expression>(Expression{std::move(node), place, height + 1});
}

ExpressionPointer ExpressionParser::expression(bool conditional) {
  const Level level(*this);
  const std::size_t begin = tokens_.begin(), known = unknown_.size();
  ExpressionPointer out = disjunction();
  while (conditional && tokens_.take_name("if")) {
    ExpressionPointer test = disjunction(), no;
    if (tokens_.take_name("else")) no = expression();
    out = make(begin, Conditional{std::move(test), std::move(out), std::move(no)});
    unknown_.resize(known);
  }
  return out;
}

ExpressionPointer ExpressionParser::disjunction() {
  const std::size_t begin = tokens_.begin();
  ExpressionPointer out = conjunction();
  while (tokens_.take_name("or")) out = make(begin, Logical{false, std::move(out), conjunction()});
  return out;
}

ExpressionPointer ExpressionParser::conjunction() {
  const std::size_t begin = tokens_.begin();
  ExpressionPointer out = negation();
  while (tokens_.take_name("and")) out = make(begin, Logical{true, std::move(out), negation()});
  return out;
}

ExpressionPointer ExpressionParser::negation() {
  const Level level(*this);
  const std::size_t begin = tokens_.begin();
  if (!tokens_.take_name("not")) return comparison();
  return make(begin, Unary{UnaryOperator::kNot, negation()});
}

ExpressionPointer ExpressionParser::comparison() {
  static constexpr std::pair<std::string_view, Comparison> kSigns[] = {
      {"==", Comparison::kEqual},  {"!=", Comparison::kNotEqual}, {"<", Comparison::kLess},
      {"<=", Comparison::kAtMost}, {">", Comparison::kGreater},   {">=", Comparison::kAtLeast}};
  const std::size_t begin = tokens_.begin();
  ExpressionPointer first = sum();
  std::vector<std::pair<Comparison, ExpressionPointer>> others;
  for (;;) {
    const auto* sign = std::find_if(std::begin(kSigns), std::end(kSigns), [&](const auto& entry) {
      return tokens_.sees_operator(entry.first);
    });
    Comparison op = Comparison::kIn;
    if (sign != std::end(kSigns)) {
      op = sign->second;
    } else if (tokens_.sees_name("not") && tokens_.sees_name("in", 1)) {
      op = Comparison::kNotIn;
      tokens_.next();
    } else if (!tokens_.sees_name("in")) {
      break;
    }
    tokens_.next();
    others.emplace_back(op, sum());
  }
  if (others.empty()) return first;
  return make(begin, Compared{std::move(first), std::move(others)});
}

ExpressionPointer ExpressionParser::sum() {
  const std::size_t begin = tokens_.begin();
  ExpressionPointer out = concatenation();
  while (tokens_.sees_operator("+") || tokens_.sees_operator("-")) {
    const auto op = tokens_.next().text == "+" ? Operator::kAdd : Operator::kSubtract;
    out = make(begin, Binary{op, std::move(out), concatenation()});
  }
  return out;
}

ExpressionPointer ExpressionParser::concatenation() {
  const std::size_t begin = tokens_.begin();
  std::vector<ExpressionPointer> parts;
  do parts.push_back(product());
  while (tokens_.take_operator("~"));
  if (parts.size() == 1) return std::move(parts[0]);
  return make(begin, Concatenated{std::move(parts)});
}

ExpressionPointer ExpressionParser::product() {
  static constexpr std::pair<std::string_view, Operator> kSigns[] = {{"*", Operator::kMultiply},
                                                                     {"/", Operator::kDivide},
                                                                     {"//", Operator::kFloorDivide},
                                                                     {"%", Operator::kModulo}};
  const std::size_t begin = tokens_.begin();
  ExpressionPointer out = power();
  for (;;) {
    const auto* sign = std::find_if(std::begin(kSigns), std::end(kSigns), [&](const auto& entry) {
      return tokens_.sees_operator(entry.first);
    });
    if (sign == std::end(kSigns)) return out;
    tokens_.next();
    out = make(begin, Binary{sign->second, std::move(out), power()});
  }
}

/// From left to right, unlike Python.
ExpressionPointer ExpressionParser::power() {
  const std::size_t begin = tokens_.begin();
  ExpressionPointer out = unary(true);
  while (tokens_.take_operator("**")) {
    out = make(begin, Binary{Operator::kPower, std::move(out), unary(true)});
  }
  return out;
}

/// A filter behind `-x` filters the negative number.
ExpressionPointer ExpressionParser::unary(bool with_filters) {
  const Level level(*this);
  const std::size_t begin = tokens_.begin();
  ExpressionPointer out;
  if (tokens_.take_operator("-")) {
    out = make(begin, Unary{UnaryOperator::kNegative, unary(false)});
  } else if (tokens_.take_operator("+")) {
    out = make(begin, Unary{UnaryOperator::kPositive, unary(false)});
  } else {
    out = primary();
  }
  out = postfix(begin, std::move(out));
  return with_filters ? filters_and_tests(begin, std::move(out)) : std::move(out);
}

ExpressionPointer ExpressionParser::primary() {
  const std::size_t begin = tokens_.begin();
  switch (tokens_.peek().kind) {
    case TokenKind::kName: {
      std::string name = tokens_.next().text;
      if (name == "true" || name == "True") return make(begin, Literal{true});
      if (name == "false" || name == "False") return make(begin, Literal{false});
      if (name == "none" || name == "None") return make(begin, Literal{None{}});
      names_read.insert(name);
      return make(begin, Name{std::move(name)});
    }
    case TokenKind::kString: {
      std::string text;
      while (tokens_.sees(TokenKind::kString)) text += tokens_.next().text;
      return make(begin, Literal{Value::text(text)});
    }
    case TokenKind::kInteger:
    case TokenKind::kFloat:
      return number();
    default:
      break;
  }
  if (tokens_.sees_operator("(")) return parenthesized();
  if (tokens_.sees_operator("[")) return list();
  if (tokens_.sees_operator("{")) return dict();
  tokens_.fail("an expression");
}

ExpressionPointer ExpressionParser::number() {
  const std::size_t begin = tokens_.begin();
  const Token token = tokens_.next();
  if (token.kind == TokenKind::kFloat) {
    return make(begin, Literal{python::parse_float(token.text).value_or(0)});
  }
  std::optional<std::int64_t> whole;
  try {
    whole = parse_integer(token.text, 0);
  } catch (const Complaint&) {
  }
  if (!whole) tokens_.refuse(token.place, "an integer of 64 bits");
  return make(begin, Literal{*whole});
}

bool ExpressionParser::tuple_ends() const {
  return tokens_.sees(TokenKind::kPrintEnd) || tokens_.sees(TokenKind::kBlockEnd) ||
         tokens_.sees_operator(")");
}

ExpressionPointer ExpressionParser::tuple(bool conditional) {
  const std::size_t begin = tokens_.begin();
  ExpressionPointer first = expression(conditional);
  if (!tokens_.sees_operator(",")) return first;
  std::vector<ExpressionPointer> items;
  items.push_back(std::move(first));
  while (tokens_.take_operator(",")) {
    if (tuple_ends() || tokens_.sees_name("recursive")) break;
    items.push_back(expression(conditional));
  }
  return make(begin, SequenceLiteral{true, std::move(items)});
}

ExpressionPointer ExpressionParser::parenthesized() {
  const std::size_t begin = tokens_.begin();
  tokens_.next();
  ExpressionPointer out =
      tokens_.sees_operator(")") ? make(begin, SequenceLiteral{true, {}}) : tuple();
  tokens_.expect_operator(")");
  return out;
}

ExpressionPointer ExpressionParser::list() {
  const std::size_t begin = tokens_.begin();
  tokens_.next();
  std::vector<ExpressionPointer> items;
  while (!tokens_.sees_operator("]")) {
    if (!items.empty()) tokens_.expect_operator(",");
    if (tokens_.sees_operator("]")) break;
    items.push_back(expression());
  }
  tokens_.next();
  return make(begin, SequenceLiteral{false, std::move(items)});
}

ExpressionPointer ExpressionParser::dict() {
  const std::size_t begin = tokens_.begin();
  tokens_.next();
  std::vector<std::pair<ExpressionPointer, ExpressionPointer>> items;
  while (!tokens_.sees_operator("}")) {
    if (!items.empty()) tokens_.expect_operator(",");
    if (tokens_.sees_operator("}")) break;
    ExpressionPointer key = expression();
    tokens_.expect_operator(":");
    items.emplace_back(std::move(key), expression());
  }
  tokens_.next();
  return make(begin, DictLiteral{std::move(items)});
}

ExpressionPointer ExpressionParser::postfix(std::size_t begin, ExpressionPointer value) {
  for (;;) {
    if (tokens_.sees_operator(".") || tokens_.sees_operator("[")) {
      value = subscript(begin, std::move(value));
    } else if (tokens_.sees_operator("(")) {
      value = make(begin, CallOf{std::move(value), arguments()});
    } else {
      return value;
    }
  }
}

ExpressionPointer ExpressionParser::filters_and_tests(std::size_t begin, ExpressionPointer value) {
  for (;;) {
    if (tokens_.take_operator("|")) {
      Filtered filtered = filter();
      filtered.value = std::move(value);
      value = make(begin, std::move(filtered));
    } else if (tokens_.take_name("is")) {
      value = test(begin, std::move(value));
    } else if (tokens_.sees_operator("(")) {
      value = make(begin, CallOf{std::move(value), arguments()});
    } else {
      return value;
    }
  }
}

std::string ExpressionParser::dotted_name() {
  std::string name = tokens_.expect_name();
  while (tokens_.take_operator(".")) name += "." + tokens_.expect_name();
  return name;
}

Filtered ExpressionParser::filter() {
  const std::size_t begin = tokens_.begin();
  Filtered out{nullptr, dotted_name(), {}};
  if (find_filter(out.name) == nullptr) {
    unknown_.push_back(
        {{begin, tokens_.end()},
         is_left_out(out.name) ? "a filter that this library has" : "a filter that is known"});
  }
  if (tokens_.sees_operator("(")) out.arguments = arguments();
  return out;
}

std::vector<Filtered> ExpressionParser::filters() {
  std::vector<Filtered> out;
  do out.push_back(filter());
  while (tokens_.take_operator("|"));
  return out;
}

ExpressionPointer ExpressionParser::test(std::size_t begin, ExpressionPointer value) {
  const bool negated = tokens_.take_name("not");
  const std::size_t name_begin = tokens_.begin();
  Tested out{std::move(value), dotted_name(), {}};
  if (find_test(out.name) == nullptr) {
    unknown_.push_back({{name_begin, tokens_.end()}, "a test that is known"});
  }
  const TokenKind next = tokens_.peek().kind;
  const bool operand = next == TokenKind::kName || next == TokenKind::kString ||
                       next == TokenKind::kInteger || next == TokenKind::kFloat ||
                       tokens_.sees_operator("[") || tokens_.sees_operator("{");
  if (tokens_.sees_operator("(")) {
    out.arguments = arguments();
  } else if (operand && !tokens_.sees_one_of({"else", "or", "and"})) {
    if (tokens_.sees_name("is")) tokens_.fail("no test behind a test");
    const std::size_t argument = tokens_.begin();
    out.arguments.values.push_back(postfix(argument, primary()));
  }
  ExpressionPointer tested = make(begin, std::move(out));
  return negated ? make(begin, Unary{UnaryOperator::kNot, std::move(tested)}) : std::move(tested);
}

ExpressionPointer ExpressionParser::subscript(std::size_t begin, ExpressionPointer value) {
  if (tokens_.take_operator(".")) {
    if (tokens_.sees(TokenKind::kInteger)) {
      ExpressionPointer key = number();
      return make(begin, ItemOf{std::move(value), std::move(key)});
    }
    std::string name = tokens_.expect(TokenKind::kName, "a name or a number").text;
    return make(begin, AttributeOf{std::move(value), std::move(name)});
  }
  tokens_.next();
  ExpressionPointer parts[3];
  std::size_t count = 0;
  const std::size_t key_begin = tokens_.begin();
  for (;;) {
    if (!tokens_.sees_operator(":") && !tokens_.sees_operator("]")) parts[count] = expression();
    if (count == 2 || !tokens_.take_operator(":")) break;
    ++count;
  }
  if (count > 0) {
    tokens_.expect_operator("]");
    return make(begin, SliceOf{std::move(value), std::move(parts[0]), std::move(parts[1]),
                               std::move(parts[2])});
  }
  if (!parts[0]) tokens_.fail("an expression");
  if (tokens_.sees_operator(",")) {
    std::vector<ExpressionPointer> items;
    items.push_back(std::move(parts[0]));
    while (tokens_.take_operator(",")) items.push_back(expression());
    parts[0] = make(key_begin, SequenceLiteral{true, std::move(items)});
  }
  tokens_.expect_operator("]");
  return make(begin, ItemOf{std::move(value), std::move(parts[0])});
}

ArgumentList ExpressionParser::arguments() {
  const Token open = tokens_.next();
  ArgumentList out;
  const auto require = [&](bool holds) {
    if (!holds) tokens_.fail("arguments in the order of Python");
  };
  for (bool first = true; !tokens_.sees_operator(")"); first = false) {
    if (!first) {
      tokens_.expect_operator(",");
      if (tokens_.sees_operator(")")) break;
    }
    if (tokens_.take_operator("*")) {
      require(!out.more_values && !out.more_named);
      out.more_values = expression();
    } else if (tokens_.take_operator("**")) {
      require(!out.more_named);
      out.more_named = expression();
    } else if (tokens_.sees(TokenKind::kName) && tokens_.sees_operator("=", 1)) {
      require(!out.more_named);
      std::string name = tokens_.next().text;
      tokens_.next();
      out.named.emplace_back(std::move(name), expression());
    } else {
      require(!out.more_values && !out.more_named && out.named.empty());
      out.values.push_back(expression());
    }
  }
  tokens_.next();
  return out;
}

Target ExpressionParser::target(bool with_attributes) {
  Target first = simple_target(with_attributes);
  if (!tokens_.sees_operator(",")) return first;
  Target out{.is_tuple = true};
  out.targets.push_back(std::move(first));
  while (tokens_.take_operator(",")) {
    out.targets.push_back(simple_target(with_attributes));
  }
  return out;
}

Target ExpressionParser::simple_target(bool with_attributes) {
  const Level level(*this);
  if (tokens_.take_operator("(")) {
    Target out = target(false);
    tokens_.expect_operator(")");
    return out;
  }
  if (tokens_.sees_one_of({"true", "false", "none", "True", "False", "None"})) {
    tokens_.fail("a name that can be set");
  }
  Target out{.name = tokens_.expect_name()};
  if (with_attributes && tokens_.take_operator(".")) out.attribute = tokens_.expect_name();
  return out;
}

}  // namespace turnbench::jinja
