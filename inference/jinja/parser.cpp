#include "inference/jinja/parser.h"

#include "inference/jinja/expression_parser.h"

namespace turnbench::jinja {
namespace {

/// The grammar of statements.
class Parser {
 public:
  explicit Parser(const Source& source) : tokens_(source), expressions_(tokens_) {}

  Body run() { return body({}); }

 private:
  using Names = std::initializer_list<std::string_view>;

  /// What a nested scope does not inherit, while it is parsed.
  class Scope {
   public:
    Scope(Parser& parser, int loops)
        : parser_(parser),
          loops_(std::exchange(parser.loops_, loops)),
          conditions_(std::exchange(parser.conditions_, 0)) {}
    ~Scope() {
      parser_.loops_ = loops_;
      parser_.conditions_ = conditions_;
    }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    Parser& parser_;
    int loops_, conditions_;
  };

  /// Statements up to a tag of one of these names, or up to the end if there are none.  The name
  /// itself is not taken.
  Body body(Names ends) {
    const ExpressionParser::Level level(expressions_);
    Body out;
    for (;;) {
      const std::size_t begin = tokens_.begin();
      if (tokens_.sees(TokenKind::kEnd)) {
        if (ends.size() > 0) tokens_.fail("the tag " + std::string(*(ends.end() - 1)));
        return out;
      }
      if (tokens_.sees(TokenKind::kData)) {
        auto text = std::make_shared<const Text>(tokens_.next().text);
        out.push_back({Data{std::move(text)}, {begin, tokens_.end()}});
      } else if (tokens_.sees(TokenKind::kPrintBegin)) {
        tokens_.next();
        ExpressionPointer value = tuple();
        tokens_.expect(TokenKind::kPrintEnd, "}}");
        out.push_back({Output{std::move(value)}, {begin, tokens_.end()}});
      } else {
        tokens_.expect(TokenKind::kBlockBegin, "a tag");
        if (tokens_.sees_one_of(ends)) return out;
        Statement::Node node = statement();
        end_tag();
        out.push_back({std::move(node), {begin, tokens_.end()}});
      }
    }
  }

  void end_tag() { tokens_.expect(TokenKind::kBlockEnd, "%}"); }

  /// The body of a block, with the tag's end in front and the closing name behind it.
  Body block(Names ends) {
    tokens_.take_operator(":");
    end_tag();
    return body(ends);
  }

  Body closed_block(std::string_view end) {
    Body out = block({end});
    tokens_.next();
    return out;
  }

  ExpressionPointer known(ExpressionPointer expression) {
    check_filters();
    return expression;
  }
  ExpressionPointer expression() { return known(expressions_.expression()); }
  ExpressionPointer tuple(bool conditional = true) {
    return known(expressions_.tuple(conditional));
  }
  std::vector<Filtered> filters() {
    std::vector<Filtered> out = expressions_.filters();
    check_filters();
    return out;
  }

  /// As in Jinja2 a filter that nobody knows matters where it runs, in an `if`, or at once.
  void check_filters() {
    if (conditions_ == 0) expressions_.require_known();
    expressions_.forget_unknown();
  }

  Statement::Node statement() {
    if (tokens_.take_name("if")) return if_statement();
    if (tokens_.take_name("for")) return for_statement();
    if (tokens_.take_name("set")) return set_statement();
    if (tokens_.take_name("macro")) return macro_statement();
    if (tokens_.take_name("call")) return call_statement();
    if (tokens_.take_name("filter")) {
      std::vector<Filtered> chain = filters();
      return FilterBlock{std::move(chain), scoped("endfilter", loops_)};
    }
    if (tokens_.take_name("with")) return with_statement();
    // transformers' tag: what the model is to learn, in a scope of its own
    if (tokens_.take_name("generation")) return With{{}, scoped("endgeneration", 0)};
    if (tokens_.sees_one_of({"break", "continue"})) {
      if (loops_ == 0) tokens_.fail("a loop around it");
      if (tokens_.next().text == "break") return Break{};
      return Continue{};
    }
    if (tokens_.sees_one_of({"include", "import", "from", "extends", "block"})) {
      tokens_.fail("a template that needs no other");
    }
    tokens_.fail(
        "one of if, for, set, macro, call, filter, with, generation, break, continue, raw");
  }

  Body scoped(std::string_view end, int loops) {
    const Scope scope(*this, loops);
    return closed_block(end);
  }

  Statement::Node if_statement() {
    If out;
    ++conditions_;
    do {
      ExpressionPointer test = tuple(false);
      out.branches.emplace_back(std::move(test), block({"elif", "else", "endif"}));
    } while (tokens_.take_name("elif"));
    if (tokens_.take_name("else")) out.otherwise = block({"endif"});
    if (!tokens_.take_name("endif")) tokens_.fail("endif");
    --conditions_;
    return out;
  }

  Statement::Node for_statement() {
    For out;
    out.target = expressions_.target(false);
    if (!tokens_.take_name("in")) tokens_.fail("in");
    out.values = tuple(false);
    if (tokens_.take_name("if")) out.test = expression();
    out.recursive = tokens_.take_name("recursive");
    {
      const Scope scope(*this, out.recursive ? 1 : loops_ + 1);
      out.body = block({"else", "endfor"});
    }
    if (tokens_.take_name("else")) {
      const Scope scope(*this, loops_);
      out.otherwise = block({"endfor"});
    }
    if (!tokens_.take_name("endfor")) tokens_.fail("endfor");
    return out;
  }

  Statement::Node set_statement() {
    Target target = expressions_.target(true);
    if (tokens_.take_operator("=")) {
      ExpressionPointer value = tuple();
      return Set{std::move(target), std::move(value)};
    }
    std::vector<Filtered> chain;
    if (tokens_.take_operator("|")) chain = filters();
    return SetBlock{std::move(target), std::move(chain), scoped("endset", loops_)};
  }

  /// `(a, b=1)`
  void signature(MacroBody& macro) {
    tokens_.expect_operator("(");
    std::set<std::string> names;
    bool defaults = false;
    while (!tokens_.sees_operator(")")) {
      if (!macro.parameters.empty()) tokens_.expect_operator(",");
      if (!names.insert(tokens_.peek().text).second) tokens_.fail("another name");
      if (tokens_.sees_name("caller") && !tokens_.sees_operator("=", 1)) {
        tokens_.fail("a default for caller");
      }
      std::string name = tokens_.expect_name();
      ExpressionPointer value;
      if (tokens_.take_operator("=")) {
        value = expression();
        defaults = true;
      } else if (defaults) {
        tokens_.fail("a default, as in front of it");
      }
      macro.parameters.emplace_back(std::move(name), std::move(value));
    }
    tokens_.next();
  }

  /// The body, which says what else the macro takes by using its name.
  void macro_body(MacroBody& macro, std::string_view end) {
    std::set<std::string> outer = std::exchange(expressions_.names_read, {});
    macro.body = scoped(end, 0);
    std::set<std::string>& names = expressions_.names_read;
    macro.takes_caller = names.contains("caller");
    macro.takes_values = names.contains("varargs");
    macro.takes_names = names.contains("kwargs");
    names.merge(outer);
  }

  Statement::Node macro_statement() {
    auto macro = std::make_shared<MacroBody>();
    macro->name = tokens_.expect_name();
    signature(*macro);
    macro_body(*macro, "endmacro");
    return MacroDefinition{std::move(macro)};
  }

  Statement::Node call_statement() {
    auto caller = std::make_shared<MacroBody>();
    caller->name = "caller";
    if (tokens_.sees_operator("(")) signature(*caller);
    ExpressionPointer call = expression();
    if (!std::holds_alternative<CallOf>(call->node)) tokens_.refuse(call->place, "a call");
    macro_body(*caller, "endcall");
    return CallBlock{std::move(caller), std::move(call)};
  }

  Statement::Node with_statement() {
    std::vector<std::pair<Target, ExpressionPointer>> targets;
    while (!tokens_.sees(TokenKind::kBlockEnd)) {
      if (!targets.empty()) tokens_.expect_operator(",");
      Target target = expressions_.target(false);
      tokens_.expect_operator("=");
      targets.emplace_back(std::move(target), expression());
    }
    return With{std::move(targets), scoped("endwith", loops_)};
  }

  TokenStream tokens_;
  ExpressionParser expressions_;
  int loops_ = 0;       // around the statement, for break and continue
  int conditions_ = 0;  // `if`s around it
};

}  // namespace

Body parse(const Source& source) {
  return Parser(source).run();
}

}  // namespace turnbench::jinja
