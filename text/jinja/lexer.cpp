#include "text/jinja/lexer.h"

#include <algorithm>

#include "common/python_text.h"
#include "common/text.h"

namespace turnbench::jinja {
namespace {

constexpr std::size_t kLongestTemplate = 1
                                         << 18;  // templates of models have up to some 30,000 bytes
constexpr std::size_t kQuoted = 80;              // bytes of the template quoted in a message
constexpr std::size_t kLongestMessage = 800;
constexpr std::size_t kEndOfText = std::string_view::npos;

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

class Lexer {
 public:
  explicit Lexer(const Source& source) : source_(source), text_(source.text()) {}

  std::vector<Token> run() {
    while (at_ < text_.size()) root();
    out_.push_back({TokenKind::kEnd, "", {text_.size(), text_.size()}});
    return std::move(out_);
  }

 private:
  bool sees(std::string_view what) const { return text_.substr(at_).starts_with(what); }

  bool take(std::string_view what) {
    if (!sees(what)) return false;
    at_ += what.size();
    return true;
  }

  void skip_space() {
    for (std::size_t next = at_; next < text_.size(); at_ = next) {
      if (!python::is_space(next_code_point(text_, next))) return;
    }
  }

  void add(TokenKind kind, std::string text, std::size_t begin) {
    out_.push_back({kind, std::move(text), {begin, at_}});
  }

  [[noreturn]] void fail(std::size_t begin, std::size_t end, std::string_view message) const {
    throw source_.error({begin, std::min(end, text_.size())}, message);
  }

  /// Adds the text from `begin` to `end`, where a tag begins, without the white space that the
  /// tag's sign or its kind removes.
  void data(std::size_t begin, std::size_t end, char sign, bool strips_line) {
    std::string_view text = text_.substr(begin, end - begin);
    if (sign == '-') {
      const std::string_view kept = python::strip(text);
      text =
          kept.empty() ? "" : text.substr(0, static_cast<std::size_t>(kept.end() - text.begin()));
    } else if (sign != '+' && strips_line) {
      const std::size_t line = text.rfind('\n') + 1;
      if ((line > 0 || at_line_start_) && python::strip(text.substr(line)).empty()) {
        text = text.substr(0, line);
      }
    }
    if (!text.empty()) out_.push_back({TokenKind::kData, std::string(text), {begin, end}});
  }

  /// The sign after the opening or before the end of a tag, or 0.
  char take_sign() {
    if (take("-")) return '-';
    return take("+") ? '+' : '\0';
  }

  /// Removes the text after a tag's end: all white space, or one line end.
  void finish_tag(char sign, bool takes_line_end) {
    if (sign == '-') {
      skip_space();
    } else if (sign != '+' && takes_line_end) {
      take("\n");
    }
    at_line_start_ = text_[at_ - 1] == '\n';
  }

  /// Tokenizes text up to a tag or comment, and the tag or comment.
  void root() {
    const std::size_t begin = at_;
    for (;; ++at_) {
      at_ = text_.find('{', at_);
      if (at_ == kEndOfText || at_ + 1 >= text_.size()) {
        at_ = text_.size();
        data(begin, at_, '+', false);
        return;
      }
      const char next = text_[at_ + 1];
      if (next == '%' || next == '{' || next == '#') break;
    }
    const std::size_t tag = at_;
    at_ += 2;
    const char kind = text_[tag + 1], sign = take_sign();
    data(begin, tag, sign, kind != '{');
    if (kind == '#') {
      comment(tag);
    } else if (kind == '{') {
      add(TokenKind::kPrintBegin, "{{", tag);
      inside(tag, "}}");
    } else {
      add(TokenKind::kBlockBegin, "{%", tag);
      inside(tag, "%}");
    }
  }

  void comment(std::size_t tag) {
    const std::size_t end = text_.find("#}", at_);
    if (end == kEndOfText) fail(tag, tag + 40, "found a comment without an end, expected #}");
    const char before = end > at_ ? text_[end - 1] : '\0';
    at_ = end + 2;
    finish_tag(before, true);
  }

  /// Tokenizes a tag, including its end.
  void inside(std::size_t tag, std::string_view close) {
    const bool block = close == "%}";
    std::string open;  // unclosed brackets
    for (;;) {
      skip_space();
      const std::size_t begin = at_;
      if (at_ == text_.size()) fail(tag, tag + 40, "found a tag without an end, expected one");
      const bool signed_end = (text_[at_] == '-' || (text_[at_] == '+' && block)) &&
                              text_.substr(at_ + 1).starts_with(close);
      if (open.empty() && (signed_end || sees(close))) {
        const char sign = take_sign();
        at_ += 2;
        add(block ? TokenKind::kBlockEnd : TokenKind::kPrintEnd, std::string(close), begin);
        finish_tag(sign, block);
        return;
      }
      if (!number() && !word() && !string()) operation(open);
    }
  }

  void skip_digits() {
    while (at_ < text_.size() && is_digit(text_[at_])) ++at_;
  }

  bool number() {
    if (!is_digit(text_[at_])) return false;
    const std::size_t begin = at_;
    skip_digits();
    bool is_float = false;
    // After a point, digits are an index: a.0.1
    if (begin == 0 || text_[begin - 1] != '.') {
      const auto digit_at = [&](std::size_t i) { return i < text_.size() && is_digit(text_[i]); };
      if (sees(".") && digit_at(at_ + 1)) {
        is_float = true;
        ++at_;
        skip_digits();
      }
      const std::size_t sign =
          at_ + 1 < text_.size() && (text_[at_ + 1] == '+' || text_[at_ + 1] == '-');
      if ((sees("e") || sees("E")) && digit_at(at_ + 1 + sign)) {
        is_float = true;
        at_ += 1 + sign;
        skip_digits();
      }
    }
    const std::string digits(text_.substr(begin, at_ - begin));
    const bool padded = digits[0] == '0' && digits.find_first_not_of('0') != kEndOfText;
    std::size_t next = at_;
    if ((padded && !is_float) ||
        (at_ < text_.size() && python::is_word(next_code_point(text_, next)))) {
      fail(begin, next, "found a number that is not plain, expected decimal digits");
    }
    add(is_float ? TokenKind::kFloat : TokenKind::kInteger, digits, begin);
    return true;
  }

  bool word() {
    const std::size_t begin = at_;
    for (std::size_t next = at_; next < text_.size(); at_ = next) {
      if (!python::is_word(next_code_point(text_, next))) break;
    }
    if (at_ == begin) return false;
    add(TokenKind::kName, std::string(text_.substr(begin, at_ - begin)), begin);
    return true;
  }

  bool string() {
    const char quote = text_[at_];
    if (quote != '"' && quote != '\'') return false;
    const std::size_t begin = at_++;
    std::string value;
    while (at_ < text_.size() && text_[at_] != quote) {
      if (text_[at_] == '\\' && at_ + 1 < text_.size()) {
        escape(value);
      } else {
        value += text_[at_++];
      }
    }
    if (at_ >= text_.size()) fail(begin, begin + 40, "found a string without an end, expected one");
    ++at_;
    add(TokenKind::kString, std::move(value), begin);
    return true;
  }

  /// Python's escapes except octal digits and names; unknown escapes are kept unchanged.
  void escape(std::string& value) {
    constexpr std::string_view kLetters = "\\'\"abfnrtv", kMeanings = "\\'\"\a\b\f\n\r\t\v";
    const std::size_t begin = at_;
    const char letter = text_[at_ + 1];
    at_ += 2;
    if (letter == '\n') return;  // joins lines
    const std::size_t known = kLetters.find(letter);
    if (known != kEndOfText) {
      value += kMeanings[known];
    } else if (letter == 'x' || letter == 'u' || letter == 'U') {
      append_utf8(value, code(begin, letter == 'x' ? 2 : letter == 'u' ? 4 : 8));
    } else if (is_digit(letter) || letter == 'N') {
      fail(begin, at_, "found a character's octal number or name, expected \\u and its number");
    } else {
      at_ = begin + 1;  // the backslash, followed by the character after it
      value += '\\';
    }
  }

  /// The code point of `digits` hexadecimal digits.
  char32_t code(std::size_t begin, std::size_t digits) {
    constexpr std::string_view kDigits = "0123456789abcdef";
    std::uint64_t out = 0;
    for (const std::size_t end = at_ + digits; at_ < end; ++at_) {
      const char c = at_ < text_.size() ? text_[at_] : ' ';
      const std::size_t digit =
          kDigits.find(c >= 'A' && c <= 'F' ? static_cast<char>(c | 0x20) : c);
      if (digit == kEndOfText)
        fail(begin, at_, "found an escape that is no character, expected one");
      out = out * 16 + digit;
    }
    if (out > 0x10FFFF || (out >= 0xD800 && out < 0xE000)) {
      fail(begin, at_, "found an escape that is no character, expected one");
    }
    return static_cast<char32_t>(out);
  }

  void operation(std::string& open) {
    static constexpr std::string_view kOperators[] = {
        "//", "**", "==", "!=", ">=", "<=", "+", "-", "*", "/", "%", "~", "[",
        "]",  "(",  ")",  "{",  "}",  ">",  "<", "=", ".", ":", "|", ",", ";"};
    const std::size_t begin = at_;
    const auto* found = std::ranges::find_if(kOperators, [&](auto what) { return sees(what); });
    if (found == std::end(kOperators)) {
      next_code_point(text_, at_);
      fail(begin, at_, "found a character that means nothing here, expected an expression");
    }
    at_ += found->size();
    add(TokenKind::kOperator, std::string(*found), begin);
    const char c = found->front();
    if (c == '(' || c == '[' || c == '{') open += c == '(' ? ')' : c == '[' ? ']' : '}';
    if (c != ')' && c != ']' && c != '}') return;
    if (!open.empty() && open.back() == c) {
      open.pop_back();
      return;
    }
    const std::string expected = open.empty() ? "none" : std::string(1, open.back());
    fail(begin, at_, "found a closing bracket, expected " + expected);
  }

  const Source& source_;
  std::string_view text_;
  std::size_t at_ = 0;
  bool at_line_start_ = true;
  std::vector<Token> out_;
};

}  // namespace

Source::Source(std::string_view text, std::string name) : name_(std::move(name)) {
  if (text.size() > kLongestTemplate) {
    throw input_error("{}: found {} bytes, expected at most {}", name_, text.size(),
                      kLongestTemplate);
  }
  require_utf8(text, name_);
  text_.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\r') {
      text_ += text[i];
    } else if (i + 1 == text.size() || text[i + 1] != '\n') {
      text_ += '\n';
    }
  }
  if (text_.ends_with('\n')) text_.pop_back();
}

Error Source::error(Place place, std::string_view message) const {
  const std::string_view before = text().substr(0, place.begin);
  const std::string_view quoted = text().substr(place.begin, place.end - place.begin);
  return input_error("{}: line {}: {}: {}", name_,
                     std::count(before.begin(), before.end(), '\n') + 1,
                     quoted.empty() ? "the end" : printable(shorten(quoted, kQuoted)),
                     printable(shorten(message, kLongestMessage)));
}

std::vector<Token> tokens_of(const Source& source) {
  return Lexer(source).run();
}

}  // namespace turnbench::jinja
