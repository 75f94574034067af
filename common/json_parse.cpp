#include <algorithm>
#include <charconv>
#include <cstring>
#include <locale>
#include <nlohmann/json.hpp>
#include <sstream>

#include "common/error.h"
#include "common/json.h"
#include "common/text.h"

namespace turnbench {
namespace {

constexpr int kMaxDepth = 256;

/// The number of bytes at the start of `text` that need no unescaping in a string.
std::size_t plain_prefix(std::string_view text) {
  constexpr std::uint64_t kOnes = 0x0101010101010101, kHighs = 0x80 * kOnes;
  // The lowest byte that is less than n has its high bit set, if there is one; n is at most 0x80.
  const auto below = [](std::uint64_t bytes, std::uint64_t n) {
    return (bytes - n * kOnes) & ~bytes & kHighs;
  };
  std::size_t i = 0;
  for (; i + 8 <= text.size(); i += 8) {
    std::uint64_t bytes;
    std::memcpy(&bytes, text.data() + i, 8);
    if (below(bytes, 0x20) | below(bytes ^ ('"' * kOnes), 1) | below(bytes ^ ('\\' * kOnes), 1)) {
      break;
    }
  }
  const auto is_plain = [](char c) {
    return static_cast<unsigned char>(c) >= 0x20 && c != '"' && c != '\\';
  };
  while (i < text.size() && is_plain(text[i])) ++i;
  return i;
}

/// A recursive descent parser of RFC 8259.
class Parser {
 public:
  Parser(std::string_view text, const std::string& source) : text_(text), source_(source) {}

  Json document() {
    if (text_.empty()) throw input_error("{}: found nothing, expected JSON", source_);
    if (text_.starts_with("\xEF\xBB\xBF")) at_ = 3;
    Json out;
    take_value(out, 0);
    skip_space();
    if (at_ < text_.size()) fail(at_);
    return out;
  }

 private:
  void take_value(Json& out, int depth) {
    skip_space();
    switch (next()) {
      case '{':
        return take_object(out, depth);
      case '[':
        return take_array(out, depth);
      case '"':
        out = take_string();
        return;
      case 't':
        take_literal("true");
        out = true;
        return;
      case 'f':
        take_literal("false");
        out = false;
        return;
      case 'n':
        take_literal("null");
        out = nullptr;
        return;
      default:
        take_number(out);
    }
  }

  void take_object(Json& out, int depth) {
    open(depth);
    out = Json::object();
    auto& members = out.get_ref<Json::object_t&>();
    if (ends_with('}')) return;
    do {
      skip_space();
      if (next() != '"') fail(at_);
      const auto [member, is_new] = members.try_emplace(take_string());
      if (!is_new) {
        throw input_error("{}: found the key {} twice in one object, expected it once", source_,
                          Json(shorten(member->first, 60)).dump());
      }
      skip_space();
      take(':');
      take_value(member->second, depth + 1);
    } while (has_more('}'));
  }

  void take_array(Json& out, int depth) {
    open(depth);
    out = Json::array();
    auto& items = out.get_ref<Json::array_t&>();
    if (ends_with(']')) return;
    do {
      take_value(items.emplace_back(), depth + 1);
    } while (has_more(']'));
  }

  void open(int depth) {
    if (depth >= kMaxDepth) {
      throw input_error("{}: found nesting deeper than {}, expected less", source_, kMaxDepth);
    }
    ++at_;
  }

  bool ends_with(char bracket) {
    skip_space();
    if (next() != bracket) return false;
    ++at_;
    return true;
  }

  /// Consumes a comma (true) or the closing bracket (false).
  bool has_more(char bracket) {
    if (ends_with(bracket)) return false;
    take(',');
    return true;
  }

  std::string take_string() {
    take('"');
    std::string out;
    for (;;) {
      const std::string_view rest = text_.substr(at_);
      const std::string_view plain = rest.substr(0, plain_prefix(rest));
      if (const std::size_t valid = valid_utf8_prefix(plain); valid < plain.size()) {
        fail(at_ + valid);
      }
      out += plain;
      at_ += plain.size();
      if (next() != '\\') break;
      ++at_;
      take_escape(out);
    }
    take('"');
    return out;
  }

  /// Reads the characters after a backslash.
  void take_escape(std::string& out) {
    constexpr std::string_view kLetters = "\"\\/bfnrt", kMeanings = "\"\\/\b\f\n\r\t";
    if (const std::size_t which = kLetters.find(next()); which != std::string_view::npos) {
      out += kMeanings[which];
      ++at_;
      return;
    }
    const std::size_t start = at_;
    char32_t c = take_code_unit();
    if (c >= 0xD800 && c < 0xDC00 && next() == '\\') {
      ++at_;
      const char32_t low = take_code_unit();
      if (low < 0xDC00 || low >= 0xE000) fail(start);
      c = 0x10000 + ((c - 0xD800) << 10) + (low - 0xDC00);
    }
    if (c >= 0xD800 && c < 0xE000) fail(start);  // half of a surrogate pair
    append_utf8(out, c);
  }

  /// uXXXX
  char32_t take_code_unit() {
    take('u');
    char32_t out = 0;
    for (int i = 0; i < 4; ++i, ++at_) {
      const char c = next();
      const int digit = c >= '0' && c <= '9'   ? c - '0'
                        : c >= 'a' && c <= 'f' ? c - 'a' + 10
                        : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                               : -1;
      if (digit < 0) fail(at_);
      out = out << 4 | static_cast<char32_t>(digit);
    }
    return out;
  }

  void take_number(Json& out) {
    const std::size_t start = at_;
    if (next() == '-') ++at_;
    if (next() == '0') {
      ++at_;
    } else {
      take_digits();
    }
    bool whole = true;
    if (next() == '.') {
      whole = false;
      ++at_;
      take_digits();
    }
    if (next() == 'e' || next() == 'E') {
      whole = false;
      ++at_;
      if (next() == '+' || next() == '-') ++at_;
      take_digits();
    }
    const std::string_view number = text_.substr(start, at_ - start);
    if (whole && number.front() != '-' && read_as<std::uint64_t>(number, out)) return;
    if (whole && number.front() == '-' && read_as<std::int64_t>(number, out)) return;
    if (read_as<double>(number, out)) return;
    // Overflow or underflow; an underflow gives zero or nearly zero.
    std::istringstream stream{std::string(number)};
    stream.imbue(std::locale::classic());
    double value = 0;
    if (!(stream >> value)) {
      throw input_error("{}: {}: found a number out of range, expected valid JSON", source_,
                        place(start));
    }
    out = value;
  }

  template <typename Number>
  static bool read_as(std::string_view text, Json& out) {
    Number value{};
    if (std::from_chars(text.data(), text.data() + text.size(), value).ec != std::errc()) {
      return false;
    }
    out = value;
    return true;
  }

  void take_digits() {
    const std::size_t start = at_;
    while (next() >= '0' && next() <= '9') ++at_;
    if (at_ == start) fail(at_);
  }

  void take_literal(std::string_view literal) {
    for (char c : literal) take(c);
  }

  void take(char c) {
    if (at_ == text_.size() || text_[at_] != c) fail(at_);
    ++at_;
  }

  /// The next byte; '\0', which is not valid in JSON, at the end.
  char next() const { return at_ < text_.size() ? text_[at_] : '\0'; }

  void skip_space() {
    while (next() == ' ' || next() == '\n' || next() == '\r' || next() == '\t') ++at_;
  }

  /// Line and column of a byte, both from 1; only the column if the text has one line.
  std::string place(std::size_t offset) const {
    const std::string_view before = text_.substr(0, offset);
    const std::size_t newline = before.rfind('\n');
    const std::size_t column = newline == std::string_view::npos ? offset + 1 : offset - newline;
    if (text_.find('\n') == std::string_view::npos) return fmt::format("column {}", column);
    return fmt::format("line {}, column {}", 1 + std::count(before.begin(), before.end(), '\n'),
                       column);
  }

  [[noreturn]] void fail(std::size_t offset) const {
    std::string found = "the end of the text";
    if (offset < text_.size()) {
      std::size_t end = offset;
      next_code_point(text_, end);
      found = "'" + printable(text_.substr(offset, end - offset)) + "'";
    }
    throw input_error("{}: {}: found {}, expected valid JSON", source_, place(offset), found);
  }

  std::string_view text_;
  const std::string& source_;
  std::size_t at_ = 0;
};

}  // namespace

Json parse_json(std::string_view text, const std::string& source) {
  return Parser(text, source).document();
}

}  // namespace turnbench
