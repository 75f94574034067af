#include "tools/source_hashes/tokens.h"

#include <algorithm>
#include <array>
#include <cstddef>

namespace turnbench {
namespace {

bool is_blank(char c) {
  return c == ' ' || c == '\t' || c == '\r' || c == '\v' || c == '\f';
}

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

bool begins_identifier(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '$' || byte >= 0x80;
}

bool continues_identifier(char c) {
  return begins_identifier(c) || is_digit(c);
}

bool is_exponent(char c) {
  return c == 'e' || c == 'E' || c == 'p' || c == 'P';
}

/// Operators of several characters, longer ones first.
constexpr auto kOperators = std::to_array<std::string_view>(
    {"<<<", ">>>", "<=>", "->*", "<<=", ">>=", "...", "::", "->", ".*",
     "++",  "--",  "<<",  ">>",  "<=",  ">=",  "==",  "!=", "&&", "||",
     "+=",  "-=",  "*=",  "/=",  "%=",  "&=",  "|=",  "^=", "##"});
constexpr auto kPrefixes = std::to_array<std::string_view>({"L", "u", "U", "u8"});
constexpr auto kRawPrefixes = std::to_array<std::string_view>({"R", "LR", "uR", "UR", "u8R"});

template <typename Prefixes>
bool is_one_of(const Prefixes& prefixes, std::string_view text) {
  return std::find(prefixes.begin(), prefixes.end(), text) != prefixes.end();
}

/// A position in a source that passes over line splices (a backslash at the end of a line).
class Cursor {
 public:
  explicit Cursor(std::string_view text) : text_(text) { skip_splices(); }

  bool at_end() const { return at_ >= text_.size(); }
  /// The character here; 0 at the end.
  char operator*() const { return at_end() ? '\0' : text_[at_]; }
  Cursor& operator++() {
    ++at_;
    skip_splices();
    return *this;
  }
  bool starts_with(std::string_view text) const {
    Cursor here = *this;
    return std::all_of(text.begin(), text.end(), [&](char c) {
      const bool same = !here.at_end() && *here == c;
      ++here;
      return same;
    });
  }
  char next() const { return *++Cursor(*this); }
  void skip(std::size_t characters) {
    while (characters-- > 0) ++*this;
  }

  /// The following characters as written in the file, splices included.
  std::string_view unspliced() const { return text_.substr(std::min(at_, text_.size())); }
  void skip_unspliced(std::size_t bytes) {
    at_ += bytes;
    skip_splices();
  }

 private:
  void skip_splices() {
    while (at_ < text_.size() && text_[at_] == '\\') {
      std::size_t end = at_ + 1;
      while (end < text_.size() && is_blank(text_[end])) ++end;  // as compilers allow
      if (end >= text_.size() || text_[end] != '\n') return;
      at_ = end + 1;
    }
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

class SourceLexer {
 public:
  explicit SourceLexer(std::string_view source) : at_(source) {}

  std::string text() {
    bool line_start = true;
    for (;;) {
      line_start |= skip_blanks(/*stop_at_newline=*/false);
      if (at_.at_end()) break;
      if (line_start && *at_ == '#') {
        directive();
      } else {
        add(token());
        line_start = false;
      }
    }
    return std::move(out_);
  }

 private:
  /// Skips white space and comments.  True if a line ended in between, outside of comments.
  bool skip_blanks(bool stop_at_newline) {
    bool newline = false;
    for (;;) {
      if (at_.starts_with("//")) {
        while (!at_.at_end() && *at_ != '\n') ++at_;
      } else if (at_.starts_with("/*")) {
        at_.skip(2);
        while (!at_.at_end() && !at_.starts_with("*/")) ++at_;
        at_.skip(2);
      } else if (is_blank(*at_)) {
        ++at_;
      } else if (*at_ == '\n' && !stop_at_newline) {
        newline = true;
        ++at_;
      } else {
        return newline;
      }
    }
  }

  bool in_line() {
    skip_blanks(/*stop_at_newline=*/true);
    return !at_.at_end() && *at_ != '\n';
  }

  /// From the '#' to the end of its line.
  void directive() {
    end_line();
    add({take()});
    if (in_line()) {
      const std::string name = token();
      add(name);
      if (name == "define" && in_line()) {
        add(token());
        if (*at_ == '(') out_ += take();
      } else if (name == "include" && in_line() && *at_ == '<') {
        std::string header;
        while (!at_.at_end() && *at_ != '\n' && !header.ends_with('>')) header += take();
        add(header);
      }
    }
    while (in_line()) add(token());
    end_line();
  }

  std::string token() {
    if (begins_identifier(*at_)) {
      std::string word = identifier();
      const bool raw = *at_ == '"' && is_one_of(kRawPrefixes, word);
      const bool prefix = (*at_ == '"' || *at_ == '\'') && is_one_of(kPrefixes, word);
      return raw ? word + raw_string() : prefix ? word + literal() : word;
    }
    if (is_digit(*at_) || (*at_ == '.' && is_digit(at_.next()))) return number();
    if (*at_ == '"' || *at_ == '\'') return literal();
    for (const std::string_view op : kOperators) {
      if (!at_.starts_with(op)) continue;
      at_.skip(op.size());
      return std::string(op);
    }
    return {take()};
  }

  std::string identifier() {
    std::string out;
    while (continues_identifier(*at_)) out += take();
    return out;
  }

  /// A preprocessing number: digits with separators, exponents and suffixes.
  std::string number() {
    std::string out;
    const auto continues = [&] {
      if (*at_ == '\'') return continues_identifier(at_.next());
      if (*at_ == '+' || *at_ == '-') return is_exponent(out.back());
      return *at_ == '.' || continues_identifier(*at_);
    };
    do {
      out += take();
    } while (continues());
    return out;
  }

  /// A string or character literal from its quote on, with its suffix.
  std::string literal() {
    const char quote = *at_;
    std::string out{take()};
    while (*at_ != quote) {
      if (*at_ == '\\' && at_.next() != '\0') out += take();
      if (at_.at_end() || *at_ == '\n') {
        unterminated_ = true;
        return out;
      }
      out += take();
    }
    out += take();
    return out + suffix();
  }

  std::string raw_string() {
    const std::string_view rest = at_.unspliced();
    const std::size_t open = rest.find_first_of("( )\\\t\v\f\n", 1);
    if (open == std::string_view::npos || rest[open] != '(') return literal();
    const std::string close = ")" + std::string(rest.substr(1, open - 1)) + "\"";
    const std::size_t end = rest.find(close, open);
    const std::string_view out =
        rest.substr(0, end == std::string_view::npos ? rest.size() : end + close.size());
    at_.skip_unspliced(out.size());
    return std::string(out) + suffix();
  }

  std::string suffix() { return begins_identifier(*at_) ? identifier() : ""; }

  char take() {
    const char c = *at_;
    ++at_;
    return c;
  }

  void add(const std::string& token) {
    if (!out_.empty() && out_.back() != '\n') out_ += ' ';
    out_ += token;
    if (unterminated_) end_line();
    unterminated_ = false;
  }

  void end_line() {
    if (!out_.empty() && out_.back() != '\n') out_ += '\n';
  }

  Cursor at_;
  std::string out_;
  bool unterminated_ = false;  ///< whether the last token is a literal without its closing quote
};

}  // namespace

std::string token_text(std::string_view source) {
  return SourceLexer(source).text();
}

}  // namespace turnbench
