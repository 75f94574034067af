#include <algorithm>
#include <initializer_list>

#include "common/python_text.h"
#include "common/text.h"
#include "text/jinja/syntax.h"

namespace turnbench::jinja {
namespace {

constexpr int kDeepestNesting = 300;  // a bracket is three levels, a block or `not` is one
constexpr int kHighestTree = 300;     // a + b + c ... is a tree, too

using Texts = std::initializer_list<std::string_view>;
using EKind = Expression::Kind;
using SKind = Statement::Kind;

class Parser {
 public:
  explicit Parser(const Source& source) : source_(source), tokens_(tokens_of(source)) {}

  Body run() { return body({}); }

 private:
  // Tokens

  const Token& peek(std::size_t ahead = 0) const {
    return tokens_[std::min(at_ + ahead, tokens_.size() - 1)];
  }
  bool sees(TokenKind kind) const { return peek().kind == kind; }
  /// True if the token is this name or operator.
  bool sees(std::string_view text, std::size_t ahead = 0) const {
    const Token& token = peek(ahead);
    return (token.kind == TokenKind::kName || token.kind == TokenKind::kOperator) &&
           token.text == text;
  }
  bool sees_one_of(Texts texts) const {
    return std::any_of(texts.begin(), texts.end(), [&](auto text) { return sees(text); });
  }
  Token next() { return tokens_[at_ + 1 < tokens_.size() ? at_++ : at_]; }
  bool take(std::string_view text) { return sees(text) && (next(), true); }
  Token expect(TokenKind kind, std::string_view expected) {
    if (!sees(kind)) fail(expected);
    return next();
  }
  void expect(std::string_view text) {
    if (!take(text)) fail(text);
  }

  /// Rejects the next token.
  [[noreturn]] void fail(std::string_view expected) const { refuse(peek().place, expected); }
  [[noreturn]] void refuse(Place place, std::string_view expected) const {
    const std::string_view text = source_.text().substr(place.begin, place.end - place.begin);
    const std::string found = text.empty() ? "the end" : "\"" + printable(shorten(text, 30)) + "\"";
    throw source_.error(place, "found " + found + ", expected " + std::string(expected));
  }

  /// Begin of the next token, and end of the last one.
  std::size_t begin() const { return peek().place.begin; }
  std::size_t end() const { return at_ == 0 ? 0 : tokens_[at_ - 1].place.end; }

  /// One level of nesting during its lifetime; rejects too many.
  class Level {
   public:
    explicit Level(Parser& parser) : parser_(parser) {
      if (parser.depth_ == kDeepestNesting) {
        parser.fail("at most " + std::to_string(kDeepestNesting) + " levels of nesting");
      }
      ++parser.depth_;
    }
    ~Level() { --parser_.depth_; }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;

   private:
    Parser& parser_;
  };

  // Statements

  /// Parses statements up to a tag with one of these names, or up to the end if `ends` is empty.
  /// The name itself is not consumed.
  Body body(Texts ends) {
    const Level level(*this);
    Body out;
    for (;;) {
      const std::size_t first = begin();
      if (sees(TokenKind::kEnd)) {
        if (ends.size() > 0) fail("the tag " + std::string(*(ends.end() - 1)));
        return out;
      }
      if (sees(TokenKind::kData)) {
        out.push_back({SKind::kData, std::make_shared<const Text>(next().text)});
      } else if (sees(TokenKind::kPrintBegin)) {
        next();
        out.push_back({.kind = SKind::kOutput, .value = tuple()});
        expect(TokenKind::kPrintEnd, "}}");
      } else {
        expect(TokenKind::kBlockBegin, "a tag");
        if (sees_one_of(ends)) return out;
        out.push_back(statement());
        expect(TokenKind::kBlockEnd, "%}");
      }
      out.back().place = {first, end()};
    }
  }

  /// Parses the body of a block, after the end of its tag.
  Body block(Texts ends) {
    take(":");
    expect(TokenKind::kBlockEnd, "%}");
    return body(ends);
  }

  /// The body of a block that break and continue cannot leave, and its closing name.
  Body closed_block(std::string_view end_name) {
    const int loops = std::exchange(loops_, 0);
    Body out = block({end_name});
    next();
    loops_ = loops;
    return out;
  }

  Statement statement() {
    if (take("if")) return if_statement();
    if (take("for")) return for_statement();
    if (take("set")) return set_statement();
    if (take("macro")) return macro_statement();
    if (take("generation")) {
      return {.kind = SKind::kGeneration, .body = closed_block("endgeneration")};
    }
    if (sees_one_of({"break", "continue"})) {
      if (loops_ == 0) fail("a loop around it");
      return {next().text == "break" ? SKind::kBreak : SKind::kContinue};
    }
    fail("one of if, for, set, macro, generation, break, continue");
  }

  /// Parses the rest of `if` or `elif`; `elif` is an `if` in the other branch.
  Statement if_statement() {
    const Level level(*this);
    Statement out{.kind = SKind::kIf, .value = tuple(false)};
    const std::size_t first = begin();
    out.body = block({"elif", "else", "endif"});
    if (take("elif")) {
      out.otherwise.push_back(if_statement());
      out.otherwise.back().place = {first, end()};
      return out;
    }
    if (take("else")) out.otherwise = block({"endif"});
    expect("endif");
    return out;
  }

  Statement for_statement() {
    Statement out{.kind = SKind::kFor, .target = target()};
    expect("in");
    out.value = tuple(false);
    if (take("if")) out.test = expression();
    ++loops_;
    out.body = block({"else", "endfor"});
    --loops_;
    if (take("else")) out.otherwise = block({"endfor"});
    expect("endfor");
    return out;
  }

  Statement set_statement() {
    Statement out{.kind = SKind::kSet, .target = target()};
    if (!out.target.unpacks && take(".")) out.target.attribute = name();
    if (take("=")) {
      out.value = tuple();
    } else {
      out.kind = SKind::kSetBlock;
      out.body = closed_block("endset");
    }
    return out;
  }

  Statement macro_statement() {
    const auto macro = std::make_shared<Macro>();
    macro->name = name();
    if (!sees("(")) fail("(");
    separated(")", [&] {
      auto& parameters = macro->parameters;
      const bool known = std::ranges::any_of(
          parameters, [&](const auto& parameter) { return sees(parameter.first); });
      if (known) fail("another name");
      std::string parameter = name();
      ExpressionPointer fallback = take("=") ? expression() : nullptr;
      if (!fallback && !parameters.empty() && parameters.back().second) {
        fail("a default, as in front of it");
      }
      parameters.emplace_back(std::move(parameter), std::move(fallback));
    });
    ++macros_;
    macro->body = closed_block("endmacro");
    --macros_;
    return {.kind = SKind::kMacro, .macro = macro};
  }

  std::string name() {
    if (sees_one_of({"true", "false", "none", "True", "False", "None"})) fail("another name");
    return expect(TokenKind::kName, "a name").text;
  }

  Target target() {
    Target out{{name()}};
    while (take(",")) {
      out.unpacks = true;
      out.names.push_back(name());
    }
    return out;
  }

  // Expressions, in order of precedence from `if` and `or` to names and literals

  ExpressionPointer make(std::size_t first, Expression expression) {
    for (const ExpressionPointer& part : expression.parts) {
      expression.height = std::max(expression.height, part->height + 1);
    }
    expression.place = {first, end()};
    if (expression.height > kHighestTree) refuse(expression.place, "an expression of fewer parts");
    return std::make_unique<const Expression>(std::move(expression));
  }

  template <typename... Parts>
  static std::vector<ExpressionPointer> list_of(Parts... parts) {
    std::vector<ExpressionPointer> out;
    (out.push_back(std::move(parts)), ...);
    return out;
  }

  /// Expressions separated by commas are a tuple.
  ExpressionPointer tuple(bool conditional = true) {
    const std::size_t first = begin();
    ExpressionPointer head = expression(conditional);
    if (!sees(",")) return head;
    Expression out{EKind::kTuple, list_of(std::move(head))};
    while (take(",")) {
      if (sees(TokenKind::kPrintEnd) || sees(TokenKind::kBlockEnd) || sees(")")) break;
      out.parts.push_back(expression(conditional));
    }
    return make(first, std::move(out));
  }

  /// One expression; `conditional`: whether it may contain an `if`.
  ExpressionPointer expression(bool conditional = true) {
    const Level level(*this);
    const std::size_t first = begin();
    ExpressionPointer out = disjunction();
    while (conditional && take("if")) {
      ExpressionPointer test = disjunction();
      auto parts = list_of(std::move(out), std::move(test));
      if (take("else")) parts.push_back(expression());
      out = make(first, {EKind::kConditional, std::move(parts)});
    }
    return out;
  }

  /// Operands joined by any of the operators, left-associative.
  template <typename Operand>
  ExpressionPointer chain(EKind kind, Texts operators, const Operand& operand) {
    const std::size_t first = begin();
    ExpressionPointer out = operand();
    while (sees_one_of(operators)) {
      std::string op = next().text;
      ExpressionPointer right = operand();
      out = make(first, {kind, list_of(std::move(out), std::move(right)), std::move(op)});
    }
    return out;
  }

  ExpressionPointer disjunction() {
    return chain(EKind::kOr, {"or"},
                 [&] { return chain(EKind::kAnd, {"and"}, [&] { return negation(); }); });
  }

  ExpressionPointer negation() {
    const Level level(*this);
    const std::size_t first = begin();
    if (!take("not")) return comparison();
    return make(first, {EKind::kNot, list_of(negation())});
  }

  ExpressionPointer comparison() {
    const std::size_t first = begin();
    Expression out{EKind::kComparison, list_of(sum())};
    for (;;) {
      const bool negated = sees("not") && sees("in", 1);
      if (!negated && !sees_one_of({"==", "!=", "<", "<=", ">", ">=", "in"})) break;
      if (negated) next();
      out.names.push_back(negated ? "not " + next().text : next().text);
      out.parts.push_back(sum());
    }
    if (out.names.empty()) return std::move(out.parts[0]);
    return make(first, std::move(out));
  }

  ExpressionPointer sum() {
    return chain(EKind::kCalculation, {"+", "-"}, [&] { return concatenation(); });
  }

  ExpressionPointer concatenation() {
    const std::size_t first = begin();
    Expression out{EKind::kText};
    do out.parts.push_back(product());
    while (take("~"));
    if (out.parts.size() == 1) return std::move(out.parts[0]);
    return make(first, std::move(out));
  }

  ExpressionPointer product() {
    return chain(EKind::kCalculation, {"*", "/", "//", "%"}, [&] { return unary(true); });
  }

  /// A filter after `-x` applies to the negative number.
  ExpressionPointer unary(bool with_filters) {
    const Level level(*this);
    const std::size_t first = begin();
    ExpressionPointer out =
        take("-") ? make(first, {EKind::kNegative, list_of(unary(false))}) : primary();
    out = postfix(first, std::move(out));
    return with_filters ? filters_and_tests(first, std::move(out)) : std::move(out);
  }

  ExpressionPointer literal(std::size_t first, Value value) {
    return make(first, {.kind = EKind::kLiteral, .constant = std::move(value)});
  }

  ExpressionPointer primary() {
    const std::size_t first = begin();
    if (sees("(")) return parenthesized();
    if (sees("[")) return list();
    if (sees("{")) return dict();
    if (sees_one_of({"true", "True"})) return next(), literal(first, true);
    if (sees_one_of({"false", "False"})) return next(), literal(first, false);
    if (sees_one_of({"none", "None"})) return next(), literal(first, None{});
    if (macros_ > 0 && sees_one_of({"caller", "varargs", "kwargs"})) {
      fail("what a macro has parameters for");
    }
    if (sees(TokenKind::kName)) {
      return make(first, {.kind = EKind::kName, .name = next().text});
    }
    if (sees(TokenKind::kInteger)) return integer();
    if (sees(TokenKind::kFloat)) {
      return literal(first, python::parse_float(next().text).value_or(0));
    }
    if (!sees(TokenKind::kString)) fail("an expression");
    std::string text;
    while (sees(TokenKind::kString)) text += next().text;
    return literal(first, Value::text(text));
  }

  ExpressionPointer integer() {
    const std::size_t first = begin();
    const auto number = parse_number<std::int64_t>(peek().text);
    if (!number) fail("an integer of 64 bits");
    next();
    return literal(first, *number);
  }

  ExpressionPointer parenthesized() {
    const std::size_t first = begin();
    next();
    ExpressionPointer out = sees(")") ? make(first, {EKind::kTuple}) : tuple();
    expect(")");
    return out;
  }

  /// Parses elements with `element`, separated by commas, up to the closing bracket.
  template <typename Element>
  void separated(std::string_view close, const Element& element) {
    next();
    while (!sees(close)) {
      element();
      if (!sees(close)) expect(",");
    }
    next();
  }

  ExpressionPointer list() {
    const std::size_t first = begin();
    Expression out{EKind::kList};
    separated("]", [&] { out.parts.push_back(expression()); });
    return make(first, std::move(out));
  }

  ExpressionPointer dict() {
    const std::size_t first = begin();
    Expression out{EKind::kDict};
    separated("}", [&] {
      out.parts.push_back(expression());
      expect(":");
      out.parts.push_back(expression());
    });
    return make(first, std::move(out));
  }

  ExpressionPointer postfix(std::size_t first, ExpressionPointer value) {
    for (;;) {
      if (take(".")) {
        value = attribute(first, std::move(value));
      } else if (take("[")) {
        value = subscript(first, std::move(value));
      } else if (sees("(")) {
        value = with_arguments(first, {EKind::kCall, list_of(std::move(value))});
      } else {
        return value;
      }
    }
  }

  ExpressionPointer attribute(std::size_t first, ExpressionPointer value) {
    if (sees(TokenKind::kInteger)) {
      ExpressionPointer key = integer();
      return make(first, {EKind::kItem, list_of(std::move(value), std::move(key))});
    }
    std::string text = expect(TokenKind::kName, "a name or a number").text;
    return make(first, {EKind::kAttribute, list_of(std::move(value)), std::move(text)});
  }

  ExpressionPointer subscript(std::size_t first, ExpressionPointer value) {
    Expression out{EKind::kItem, list_of(std::move(value))};
    const auto bound = [&] {
      const bool missing = sees(":") || sees("]");
      out.parts.push_back(missing ? literal(begin(), None{}) : expression());
    };
    if (sees("]")) fail("an expression");
    bound();
    for (int bounds = 1; bounds < 3 && take(":"); ++bounds) {
      out.kind = EKind::kSlice;
      bound();
    }
    if (out.kind == EKind::kSlice && out.parts.size() == 3) {
      out.parts.push_back(literal(begin(), None{}));
    }
    expect("]");
    return make(first, std::move(out));
  }

  ExpressionPointer filters_and_tests(std::size_t first, ExpressionPointer value) {
    for (;;) {
      if (take("|")) {
        std::string text = expect(TokenKind::kName, "a filter").text;
        value = with_arguments(first, {EKind::kFilter, list_of(std::move(value)), std::move(text)});
      } else if (take("is")) {
        value = test(first, std::move(value));
      } else if (sees("(")) {
        value = with_arguments(first, {EKind::kCall, list_of(std::move(value))});
      } else {
        return value;
      }
    }
  }

  ExpressionPointer test(std::size_t first, ExpressionPointer value) {
    const bool negated = take("not");
    Expression out{EKind::kTest, list_of(std::move(value)),
                   expect(TokenKind::kName, "a test").text};
    const TokenKind kind = peek().kind;
    const bool operand = kind == TokenKind::kName || kind == TokenKind::kString ||
                         kind == TokenKind::kInteger || kind == TokenKind::kFloat || sees("[") ||
                         sees("{");
    if (operand && !sees_one_of({"else", "or", "and"})) {
      if (sees("is")) fail("no test after a test");
      const std::size_t argument = begin();
      out.parts.push_back(postfix(argument, primary()));
    }
    ExpressionPointer tested = with_arguments(first, std::move(out));
    return negated ? make(first, {EKind::kNot, list_of(std::move(tested))}) : std::move(tested);
  }

  /// Parses `(a, b, c=1)`, if present.
  ExpressionPointer with_arguments(std::size_t first, Expression call) {
    const auto argument = [&] {
      if (sees(TokenKind::kName) && sees("=", 1)) {
        if (std::ranges::count(call.names, peek().text) > 0) fail("each argument once");
        call.names.push_back(next().text);
        next();
      } else if (!call.names.empty()) {
        fail("a name, as in front of it");
      }
      call.parts.push_back(expression());
    };
    if (sees("(")) separated(")", argument);
    return make(first, std::move(call));
  }

  const Source& source_;
  std::vector<Token> tokens_;
  std::size_t at_ = 0;
  int depth_ = 0;
  int loops_ = 0;   // that enclose the statement, for break and continue
  int macros_ = 0;  // that enclose the expression
};

}  // namespace

Body parse(const Source& source) {
  return Parser(source).run();
}

}  // namespace turnbench::jinja
