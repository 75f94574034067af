#include "text/tokenizer/oniguruma_to_pcre.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <cctype>

#include "common/error.h"
#include "common/text.h"

namespace turnbench {
namespace {

// \s and \w of the two engines differ in a few characters, so the classes are written explicitly.
constexpr std::string_view kSpace =
    R"(\t-\r \x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000})";
constexpr std::string_view kWord = R"(\p{Alphabetic}\p{M}\p{Nd}\p{Pc})";
// Oniguruma includes these Latin-1 numbers in \w outside of a class only.
constexpr std::string_view kLatinNumbers = R"(\x{b2}\x{b3}\x{b9}\x{bc}-\x{be})";

// Without case, Oniguruma matches a pair of letters with the single character that folds to it (ß,
// ligatures), and vice versa.  PCRE2 does neither.
constexpr std::string_view kFoldedPairs[] = {"ss", "st", "ff", "fi", "fl"};

/// Whether a character folds to two or three characters.
bool folds_to_several(char32_t c) {
  std::array<utf8proc_int32_t, 4> folded;
  return utf8proc_decompose_char(static_cast<utf8proc_int32_t>(c), folded.data(), folded.size(),
                                 UTF8PROC_CASEFOLD, nullptr) > 1;
}

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

class Translator {
 public:
  Translator(std::string_view pattern, const std::string& where)
      : pattern_(pattern), where_(where) {}

  std::string run() {
    while (!at_end()) {
      const char c = pattern_[at_];
      if (c == '\\') {
        escape(false);
      } else if (c == '[') {
        character_class();
      } else if (c == '(') {
        group();
      } else if (c == '{') {
        interval();
      } else {
        take(1);
      }
    }
    return std::move(out_);
  }

 private:
  [[noreturn]] void refuse(const std::string& what) const {
    throw input_error("{}: found {} at byte {} of the pattern {}, expected a pattern without it",
                      where_, printable(what), at_, printable(shorten(pattern_, 80)));
  }

  bool at_end() const { return at_ >= pattern_.size(); }
  bool looking_at(std::string_view text) const { return pattern_.substr(at_, text.size()) == text; }
  void take(std::size_t count) {
    out_ += pattern_.substr(at_, count);
    at_ += count;
  }
  void put(std::string_view text, std::size_t consumed) {
    out_ += text;
    at_ += consumed;
  }

  void escape(bool in_class) {
    if (at_ + 1 >= pattern_.size()) refuse("a single \\ at the end");
    const char c = pattern_[at_ + 1];
    if (static_cast<unsigned char>(c) >= 0x80 || std::ispunct(static_cast<unsigned char>(c))) {
      take(2);
    } else if (c == 's') {
      put(in_class ? std::string(kSpace) : fmt::format("[{}]", kSpace), 2);
    } else if (c == 'S') {
      put("\\P{White_Space}", 2);
    } else if (c == 'w') {
      put(in_class ? std::string(kWord) : fmt::format("[{}{}]", kWord, kLatinNumbers), 2);
    } else if (c == 'W' && !in_class) {
      put(fmt::format("[^{}{}]", kWord, kLatinNumbers), 2);
    } else if (c == 'd') {
      put("\\p{Nd}", 2);
    } else if (c == 'D') {
      put("\\P{Nd}", 2);
    } else if (c == 'p' || c == 'P') {
      property();
    } else if (c == 'n' || c == 'r' || c == 't' || c == 'f') {
      take(2);
    } else if (c == 'v') {
      put("\\x{0b}", 2);
    } else if (c == 'x' || c == 'u') {
      code_point();
    } else if ((c == 'A' || c == 'z' || c == 'Z') && !in_class) {
      take(2);
    } else {
      refuse(fmt::format("\\{}", c));
    }
  }

  /// \p{Name}, \P{Name}, \p{^Name}: a general category or, if longer, a script.
  void property() {
    const std::size_t open = at_ + 2;
    const std::size_t close = pattern_.find('}', open);
    if (open >= pattern_.size() || pattern_[open] != '{' || close == std::string_view::npos) {
      refuse("\\p without a name in braces");
    }
    bool negative = pattern_[at_ + 1] == 'P';
    std::string_view name = pattern_.substr(open + 1, close - open - 1);
    if (name.starts_with('^')) {
      negative = !negative;
      name.remove_prefix(1);
    }
    const bool alphabetic = std::all_of(name.begin(), name.end(), [](unsigned char c) {
      return c == '_' || (c < 0x80 && std::isalpha(c));
    });
    if (name.empty() || !alphabetic) refuse(fmt::format("\\p with the name {}", printable(name)));
    const bool is_script = name.size() > 2 || (name.size() == 2 && (name[0] | 0x20) == 'y');  // Yi
    const char* kind = is_script ? "sc:" : "";
    put(fmt::format("\\{}{{{}{}}}", negative ? 'P' : 'p', kind, name), close + 1 - at_);
  }

  /// \xHH below 0x80 (in Oniguruma, larger values are bytes), \x{H...} and \uHHHH.
  void code_point() {
    const auto hex = [&](std::size_t begin, std::size_t count) {
      const std::string_view digits = pattern_.substr(std::min(begin, pattern_.size()), count);
      const bool good = digits.size() == count && count > 0 && count <= 6 &&
                        std::all_of(digits.begin(), digits.end(),
                                    [](unsigned char c) { return std::isxdigit(c); });
      if (!good) refuse("an escape without its hexadecimal digits");
      return std::string(digits);
    };
    if (looking_at("\\x{")) {
      const std::size_t close = pattern_.find('}', at_);
      if (close == std::string_view::npos) refuse("\\x{ without }");
      put(fmt::format("\\x{{{}}}", hex(at_ + 3, close - at_ - 3)), close + 1 - at_);
    } else if (looking_at("\\u")) {
      put(fmt::format("\\x{{{}}}", hex(at_ + 2, 4)), 6);
    } else {
      const std::string digits = hex(at_ + 2, 2);
      if (digits[0] >= '8') refuse("\\x of a byte above 7f");
      put(fmt::format("\\x{{{}}}", digits), 4);
    }
  }

  void character_class() {
    take(1);
    if (looking_at("^")) take(1);
    if (looking_at("]")) refuse("an empty class");
    while (!looking_at("]")) {
      if (at_end()) refuse("a class without its end");
      if (looking_at("[")) refuse("a class in a class");
      if (looking_at("&&")) refuse("an intersection of classes");
      if (looking_at("\\")) {
        escape(true);
      } else {
        take(1);
      }
    }
    take(1);
  }

  void group() {
    for (std::string_view plain : {"(?:", "(?=", "(?!", "(?>", "(?<=", "(?<!"}) {
      if (looking_at(plain)) return take(plain.size());
    }
    if (looking_at("(*")) refuse("(*");
    if (!looking_at("(?")) return take(1);
    const std::size_t start = at_;
    std::string options;
    std::size_t i = at_ + 2;
    for (; i < pattern_.size() && std::string_view("im-").find(pattern_[i]) != std::string::npos;
         ++i) {
      options += pattern_[i] == 'm' ? 's' : pattern_[i];  // Ruby's m is s in other engines
    }
    const char end = i < pattern_.size() ? pattern_[i] : '\0';
    // In the middle of a pattern, the scope of (?i) differs between the engines.
    if (options.empty() || (end != ':' && (end != ')' || start != 0))) refuse("this kind of group");
    if (options.find('i') != std::string::npos) refuse_multiple_folds();
    put(fmt::format("(?{}{}", options, end), i + 1 - at_);
  }

  void refuse_multiple_folds() const {
    std::string lower(pattern_);
    for (char& c : lower) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
    for (std::string_view pair : kFoldedPairs) {
      if (lower.find(pair) != std::string::npos) refuse(fmt::format("(?i) and \"{}\"", pair));
    }
    for (std::size_t i = 0; i < pattern_.size();) {
      const std::size_t begin = i;
      if (folds_to_several(next_code_point(pattern_, i)))
        refuse(fmt::format("(?i) and \"{}\"", pattern_.substr(begin, i - begin)));
    }
  }

  /// {n}, {n,}, {n,m}, {,m}; any other brace is literal.
  void interval() {
    std::size_t i = at_ + 1;
    const auto number = [&]() {
      const std::size_t begin = i;
      while (i < pattern_.size() && is_digit(pattern_[i])) ++i;
      return std::string(pattern_.substr(begin, i - begin));
    };
    const std::string low = number();
    const bool range = i < pattern_.size() && pattern_[i] == ',';
    if (range) ++i;
    const std::string high = range ? number() : "";
    const bool closed = i < pattern_.size() && pattern_[i] == '}';
    if (!closed || (low.empty() && high.empty())) return put("\\{", 1);
    put(fmt::format("{{{}{}{}}}", low.empty() ? "0" : low, range ? "," : "", high), i + 1 - at_);
    // Ruby parses {n}? as optional and {n,m}+ as a repeated repeat.
    if (looking_at("+") || (looking_at("?") && !range)) refuse("a suffix of {n}");
  }

  std::string_view pattern_;
  const std::string& where_;
  std::size_t at_ = 0;
  std::string out_;
};

}  // namespace

std::string oniguruma_to_pcre(std::string_view pattern, const std::string& where) {
  // DeepSeek's pattern: a match attempt at every space of a run would take quadratic time.  A match
  // starts at the begin of the run, or of the search.
  if (pattern == R"(\s+$)") return fmt::format(R"((?:\G|(?<![{0}]))[{0}]+$)", kSpace);
  return Translator(pattern, where).run();
}

}  // namespace turnbench
