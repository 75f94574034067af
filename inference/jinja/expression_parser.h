#pragma once

#include <set>

#include "inference/jinja/syntax.h"
#include "inference/jinja/token_stream.h"

namespace turnbench::jinja {

/// The grammar of expressions, from `if` and `or` down to names and literals.
class ExpressionParser {
 public:
  explicit ExpressionParser(TokenStream& tokens) : tokens_(tokens) {}

  /// One expression; `conditional` says whether it may have an `if`.
  ExpressionPointer expression(bool conditional = true);
  /// Expressions with commas between them are a tuple.
  ExpressionPointer tuple(bool conditional = true);
  /// A name, a tuple of names, or (if so) an attribute of a namespace.
  Target target(bool with_attributes);
  /// `name(arguments)|name...`, without a value in front.
  std::vector<Filtered> filters();

  /// One level of nesting while it lives; refuses too many.
  class Level {
   public:
    explicit Level(ExpressionParser& parser);
    ~Level() { --parser_.depth_; }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;

   private:
    ExpressionParser& parser_;
  };

  /// Refuses the filters and tests of the expressions since the last call that nobody knows, but
  /// for those behind an inline `if`, which may never run.
  void require_known();
  /// Forgets them: they may never run.
  void forget_unknown() { unknown_.clear(); }

  /// Names that were read, for macros that use `caller` and the like.
  std::set<std::string> names_read;

 private:
  ExpressionPointer make(std::size_t begin, Expression::Node node);
  ExpressionPointer disjunction();
  ExpressionPointer conjunction();
  ExpressionPointer negation();
  ExpressionPointer comparison();
  ExpressionPointer sum();
  ExpressionPointer concatenation();
  ExpressionPointer product();
  ExpressionPointer power();
  ExpressionPointer unary(bool with_filters);
  ExpressionPointer primary();
  ExpressionPointer number();
  ExpressionPointer parenthesized();
  ExpressionPointer list();
  ExpressionPointer dict();
  ExpressionPointer postfix(std::size_t begin, ExpressionPointer value);
  ExpressionPointer filters_and_tests(std::size_t begin, ExpressionPointer value);
  ExpressionPointer test(std::size_t begin, ExpressionPointer value);
  ExpressionPointer subscript(std::size_t begin, ExpressionPointer value);
  ArgumentList arguments();
  Filtered filter();
  std::string dotted_name();
  bool tuple_ends() const;
  Target simple_target(bool with_attributes);

  struct Unknown {
    Place place;
    std::string expected;
  };

  TokenStream& tokens_;
  std::vector<Unknown> unknown_;
  int depth_ = 0;
};

}  // namespace turnbench::jinja
