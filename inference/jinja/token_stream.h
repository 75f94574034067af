#pragma once

#include <algorithm>
#include <initializer_list>

#include "common/text.h"
#include "inference/jinja/lexer.h"

namespace turnbench::jinja {

/// The tokens of a template, one after the other.
class TokenStream {
 public:
  explicit TokenStream(const Source& source) : source_(source), tokens_(tokens_of(source)) {}

  const Token& peek(std::size_t ahead = 0) const {
    return tokens_[std::min(at_ + ahead, tokens_.size() - 1)];
  }
  bool sees(TokenKind kind) const { return peek().kind == kind; }
  bool sees_operator(std::string_view text, std::size_t ahead = 0) const {
    return peek(ahead).kind == TokenKind::kOperator && peek(ahead).text == text;
  }
  bool sees_name(std::string_view text, std::size_t ahead = 0) const {
    return peek(ahead).kind == TokenKind::kName && peek(ahead).text == text;
  }
  bool sees_one_of(std::initializer_list<std::string_view> names) const {
    return std::any_of(names.begin(), names.end(), [&](auto name) { return sees_name(name); });
  }

  Token next() { return tokens_[at_ + 1 < tokens_.size() ? at_++ : at_]; }
  bool take_operator(std::string_view text) { return sees_operator(text) && (next(), true); }
  bool take_name(std::string_view text) { return sees_name(text) && (next(), true); }

  Token expect(TokenKind kind, std::string_view expected) {
    if (!sees(kind)) fail(expected);
    return next();
  }
  void expect_operator(std::string_view text) {
    if (!take_operator(text)) fail(text);
  }
  std::string expect_name() { return expect(TokenKind::kName, "a name").text; }

  /// Where the next token begins, and where the last one ended.
  std::size_t begin() const { return peek().place.begin; }
  std::size_t end() const { return at_ == 0 ? 0 : tokens_[at_ - 1].place.end; }

  /// Refuses the next token.
  [[noreturn]] void fail(std::string_view expected) const { refuse(peek().place, expected); }
  [[noreturn]] void refuse(Place place, std::string_view expected) const {
    const std::string_view text = source_.text().substr(place.begin, place.end - place.begin);
    const std::string found = text.empty() ? "the end" : "\"" + printable(shorten(text, 30)) + "\"";
    throw source_.error(place, "found " + found + ", expected " + std::string(expected));
  }

 private:
  const Source& source_;
  std::vector<Token> tokens_;
  std::size_t at_ = 0;
};

}  // namespace turnbench::jinja
