#include "inference/jinja/lexer.h"

#include <algorithm>
#include <optional>

#include "common/python_text.h"
#include "common/text.h"

namespace turnbench::jinja {
namespace {

bool is_digit_of(char c, int base) {
  const int value = c >= '0' && c <= '9'   ? c - '0'
                    : c >= 'a' && c <= 'f' ? c - 'a' + 10
                    : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                           : 99;
  return value < base;
}

bool is_word_at(std::string_view text, std::size_t at) {
  return at < text.size() && python::is_word(next_code_point(text, at));
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

  /// The place behind white space.
  std::size_t behind_space(std::size_t at) const {
    for (std::size_t next = at; next < text_.size(); at = next) {
      if (!python::is_space(next_code_point(text_, next))) break;
    }
    return at;
  }

  void add(TokenKind kind, std::string text, std::size_t begin) {
    out_.push_back({kind, std::move(text), {begin, at_}});
  }

  [[noreturn]] void fail(std::size_t begin, std::size_t end, std::string_view message) const {
    throw source_.error({begin, std::min(end, text_.size())}, message);
  }

  /// Adds the text from `begin` to `end`, where a tag begins, without the white space that the
  /// tag's sign or its kind takes away.
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

  /// The sign behind the opening of a tag, or 0.
  char take_sign() {
    if (take("-")) return '-';
    return take("+") ? '+' : '\0';
  }

  /// What follows a tag's end: all white space, or one line end.
  void finish_tag(char sign, bool takes_line_end) {
    if (sign == '-') {
      at_ = behind_space(at_);
    } else if (sign != '+' && takes_line_end) {
      take("\n");
    }
    at_line_start_ = text_[at_ - 1] == '\n';
  }

  /// Text up to a tag or comment, and that.
  void root() {
    const std::size_t begin = at_;
    for (;; ++at_) {
      at_ = text_.find('{', at_);
      if (at_ == std::string_view::npos || at_ + 1 >= text_.size()) {
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
    } else if (!raw(tag)) {
      add(TokenKind::kBlockBegin, "{%", tag);
      inside(tag, "%}");
    }
  }

  void comment(std::size_t tag) {
    const std::size_t end = text_.find("#}", at_);
    if (end == std::string_view::npos) {
      fail(tag, tag + 40, "found a comment without an end, expected #}");
    }
    const char before = end > at_ ? text_[end - 1] : '\0';
    at_ = end + 2;
    finish_tag(before, true);
  }

  /// `{% raw %}...{% endraw %}`; false if this is another tag.
  bool raw(std::size_t tag) {
    const auto word = [&](std::string_view name) {
      const std::size_t back = at_;
      at_ = behind_space(at_);
      if (take(name)) {
        at_ = behind_space(at_);
        return true;
      }
      at_ = back;
      return false;
    };
    const std::size_t back = at_;
    if (!word("raw") || !(sees("%}") || sees("-%}"))) {
      at_ = back;
      return false;
    }
    const char sign = take_sign();
    at_ += 2;
    finish_tag(sign, false);
    const std::size_t begin = at_;
    for (;; at_ = std::max(begin, at_)) {
      const std::size_t end = text_.find("{%", at_);
      if (end == std::string_view::npos)
        fail(tag, tag + 40, "found raw, expected endraw behind it");
      at_ = end + 2;
      const char left = take_sign();
      if (!word("endraw") || !(sees("%}") || sees("-%}") || sees("+%}"))) {
        at_ = end + 2;
        continue;
      }
      data(begin, end, left, true);
      const char right = take_sign();
      at_ += 2;
      finish_tag(right, true);
      return true;
    }
  }

  /// The tokens of a tag and its end.
  void inside(std::size_t tag, std::string_view close) {
    std::string open;  // brackets that wait for their partners
    for (;;) {
      at_ = behind_space(at_);
      const std::size_t begin = at_;
      if (at_ == text_.size()) fail(tag, tag + 40, "found a tag without an end, expected one");
      if (open.empty()) {
        const bool signed_end = (text_[at_] == '-' || (text_[at_] == '+' && close == "%}")) &&
                                text_.substr(at_ + 1).starts_with(close);
        if (signed_end || sees(close)) {
          const char sign = signed_end ? take_sign() : '\0';
          at_ += 2;
          const bool block = close == "%}";
          add(block ? TokenKind::kBlockEnd : TokenKind::kPrintEnd, std::string(close), begin);
          finish_tag(sign, block);
          return;
        }
      }
      if (!number() && !word() && !string()) operation(open);
    }
  }

  /// Digits of a base with single underscores between them; false if there is none at `at`.
  bool take_digits(std::size_t& at, int base) const {
    const std::size_t begin = at;
    for (;;) {
      const std::size_t next = at > begin && text_.substr(at).starts_with('_') ? at + 1 : at;
      if (next >= text_.size() || !is_digit_of(text_[next], base)) return at > begin;
      at = next + 1;
    }
  }

  bool number() {
    if (!is_digit_of(text_[at_], 10)) return false;
    const std::size_t begin = at_;
    std::size_t end = at_;
    take_digits(end, 10);
    // Behind a point digits are an index: a.0.1
    const bool is_index = begin > 0 && text_[begin - 1] == '.';
    bool is_float = false;
    if (!is_index) {
      std::size_t next = end + 1;
      if (end < text_.size() && text_[end] == '.' && take_digits(next, 10)) {
        end = next;
        is_float = true;
      }
      next = end + 1;
      if (end < text_.size() && (text_[end] == 'e' || text_[end] == 'E')) {
        if (next < text_.size() && (text_[next] == '+' || text_[next] == '-')) ++next;
        if (take_digits(next, 10)) {
          end = next;
          is_float = true;
        }
      }
    }
    if (!is_float && text_[begin] == '0') end = integer_with_prefix(begin);
    std::string digits(text_.substr(begin, end - begin));
    std::erase(digits, '_');
    at_ = end;
    add(is_float ? TokenKind::kFloat : TokenKind::kInteger, std::move(digits), begin);
    return true;
  }

  /// The end of an integer that begins with 0: 0x1F, 0o17, 0b11, or zeros.
  std::size_t integer_with_prefix(std::size_t begin) const {
    std::size_t end = begin + 2;
    const char letter = begin + 1 < text_.size() ? text_[begin + 1] : '\0';
    const int base = letter == 'x' || letter == 'X'   ? 16
                     : letter == 'o' || letter == 'O' ? 8
                     : letter == 'b' || letter == 'B' ? 2
                                                      : 0;
    if (base > 0) {
      if (end < text_.size() && text_[end] == '_') ++end;
      if (take_digits(end, base)) return end;
    }
    end = begin;
    take_digits(end, 1);
    return end;
  }

  bool word() {
    if (!is_word_at(text_, at_)) return false;
    const std::size_t begin = at_;
    while (is_word_at(text_, at_)) next_code_point(text_, at_);
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

  /// Python's escapes; an unknown one stands for itself.
  void escape(std::string& value) {
    constexpr std::string_view kLetters = "\\'\"abfnrtv", kMeanings = "\\'\"\a\b\f\n\r\t\v";
    const std::size_t begin = at_;
    const char letter = text_[at_ + 1];
    at_ += 2;
    if (letter == '\n') return;  // which joins lines
    const std::size_t known = kLetters.find(letter);
    if (known != std::string_view::npos) {
      value += kMeanings[known];
    } else if (letter >= '0' && letter <= '7') {
      --at_;
      append_utf8(value, code(begin, 8, 1, 3));
    } else if (letter == 'x') {
      append_utf8(value, code(begin, 16, 2, 2));
    } else if (letter == 'u') {
      append_utf8(value, code(begin, 16, 4, 4));
    } else if (letter == 'U') {
      append_utf8(value, code(begin, 16, 8, 8));
    } else if (letter == 'N') {
      fail(begin, at_, "found a character's name, expected \\u and its number");
    } else {
      at_ = begin + 1;  // the backslash, and then what follows it
      value += '\\';
    }
  }

  /// The code point that digits say.
  char32_t code(std::size_t begin, int base, std::size_t least, std::size_t most) {
    std::uint64_t out = 0;
    std::size_t count = 0;
    for (; count < most && at_ < text_.size() && is_digit_of(text_[at_], base); ++count, ++at_) {
      const char c = text_[at_];
      const int digit = c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10;
      out = out * static_cast<std::uint64_t>(base) + static_cast<std::uint64_t>(digit);
    }
    if (count < least || out > 0x10FFFF || (out >= 0xD800 && out < 0xE000)) {
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
    if (*found == "(") open += ')';
    if (*found == "[") open += ']';
    if (*found == "{") open += '}';
    if (*found != ")" && *found != "]" && *found != "}") return;
    if (open.empty() || open.back() != found->front()) {
      fail(begin, at_,
           "found a closing bracket, expected " +
               (open.empty() ? "none" : std::string(1, open.back())));
    }
    open.pop_back();
  }

  const Source& source_;
  std::string_view text_;
  std::size_t at_ = 0;
  bool at_line_start_ = true;
  std::vector<Token> out_;
};

}  // namespace

std::vector<Token> tokens_of(const Source& source) {
  return Lexer(source).run();
}

}  // namespace turnbench::jinja
