#include "inference/jinja/text_functions.h"

#include <utf8proc.h>

#include <algorithm>

#include "common/python_text.h"
#include "common/special_casing.h"
#include "common/text.h"

namespace turnbench::jinja {
namespace {

constexpr std::size_t kNowhere = std::string_view::npos;

utf8proc_category_t category_of(char32_t c) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(c));
}

/// The character that ends at `end`; `end` moves to its start.
char32_t previous_code_point(std::string_view text, std::size_t& end) {
  do --end;
  while (end > 0 && is_utf8_continuation(text[end]));
  std::size_t at = end;
  return next_code_point(text, at);
}

/// A part of which all is taken.
Slice part_of(const Text& text, std::size_t begin, std::size_t end) {
  return {&text, begin, end};
}

std::vector<Slice> split_at_space(const Text& text, std::size_t most) {
  std::vector<Slice> out;
  const std::string_view bytes = text.bytes();
  for (std::size_t at = 0; at < bytes.size();) {
    const std::size_t begin = at;
    if (python::is_space(next_code_point(bytes, at))) continue;
    if (out.size() == most) {  // the rest, with white space at its end
      out.push_back(part_of(text, begin, bytes.size()));
      break;
    }
    std::size_t end = at;
    while (at < bytes.size()) {
      if (python::is_space(next_code_point(bytes, at))) break;
      end = at;
    }
    out.push_back(part_of(text, begin, end));
  }
  return out;
}

std::vector<Slice> split_at_space_from_right(const Text& text, std::size_t most) {
  std::vector<Slice> out;
  const std::string_view bytes = text.bytes();
  for (std::size_t at = bytes.size(); at > 0;) {
    const std::size_t end = at;
    if (python::is_space(previous_code_point(bytes, at))) continue;
    if (out.size() == most) {
      out.push_back(part_of(text, 0, end));
      break;
    }
    std::size_t begin = at;
    while (at > 0) {
      if (python::is_space(previous_code_point(bytes, at))) break;
      begin = at;
    }
    out.push_back(part_of(text, begin, end));
  }
  std::reverse(out.begin(), out.end());
  return out;
}

std::vector<Slice> split_at(const Text& text, std::string_view separator, std::size_t most) {
  std::vector<Slice> out;
  std::size_t begin = 0;
  while (out.size() < most) {
    const std::size_t found = python::find(text.bytes().substr(begin), separator);
    if (found == kNowhere) break;
    out.push_back(part_of(text, begin, begin + found));
    begin += found + separator.size();
  }
  out.push_back(part_of(text, begin, text.size()));
  return out;
}

/// The same from the right: on the texts read backwards, byte by byte.
std::vector<Slice> split_at_from_right(const Text& text, std::string_view separator,
                                       std::size_t most) {
  const Text backwards(std::string(text.bytes().rbegin(), text.bytes().rend()));
  std::vector<Slice> out =
      split_at(backwards, std::string(separator.rbegin(), separator.rend()), most);
  for (Slice& part : out) part = {&text, text.size() - part.end, text.size() - part.begin};
  std::reverse(out.begin(), out.end());
  return out;
}

bool is_line_end(char32_t c) {
  return (c >= 0x0A && c <= 0x0D) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 ||
         c == 0x2029;
}

/// The title case of a character, which may be several.
std::string title_character(std::string_view character) {
  std::size_t at = 0;
  const char32_t c = next_code_point(character, at);
  const std::string upper = python::upper(character);
  std::string out;
  if (!python::special_upper(c).empty()) {  // "SS" to "Ss"
    at = python::first_character(upper).size();
    return upper.substr(0, at) + python::lower(std::string_view(upper).substr(at));
  }
  append_utf8(out, static_cast<char32_t>(utf8proc_totitle(static_cast<utf8proc_int32_t>(c))));
  return out;
}

template <typename Predicate>
bool all_are(std::string_view text, const Predicate& predicate) {
  for (std::size_t at = 0; at < text.size();) {
    if (!predicate(next_code_point(text, at))) return false;
  }
  return !text.empty();
}

bool is_letter(char32_t c) {
  switch (category_of(c)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
      return true;
    default:
      return false;
  }
}

/// Whether some character is of one of two cases, and none of the other or of title case.
bool has_only_case(std::string_view text, bool upper) {
  bool found = false;
  for (std::size_t at = 0; at < text.size();) {
    const char32_t c = next_code_point(text, at);
    const auto code = static_cast<utf8proc_int32_t>(c);
    const auto category = category_of(c);
    const bool is_high =
        category == UTF8PROC_CATEGORY_LU || (python::is_cased(c) && utf8proc_tolower(code) != code);
    const bool is_low = !is_high && python::is_cased(c) && category != UTF8PROC_CATEGORY_LT;
    if (category == UTF8PROC_CATEGORY_LT || (upper ? is_low : is_high)) return false;
    found = found || (upper ? is_high : is_low);
  }
  return found;
}

}  // namespace

Slice strip(const Text& text, std::optional<std::string_view> chars, bool left, bool right) {
  const std::string_view bytes = text.bytes();
  const std::u32string set = chars ? to_code_points(*chars) : U"";
  const auto goes = [&](char32_t c) {
    return chars ? set.find(c) != std::u32string::npos : python::is_space(c);
  };
  Slice out = part_of(text, 0, bytes.size());
  while (left && out.begin < out.end) {
    std::size_t after = out.begin;
    if (!goes(next_code_point(bytes, after))) break;
    out.begin = after;
  }
  while (right && out.begin < out.end) {
    std::size_t before = out.end;
    if (!goes(previous_code_point(bytes, before))) break;
    out.end = before;
  }
  return out;
}

std::vector<Slice> split_text(const Text& text, std::optional<std::string_view> separator,
                              std::int64_t most, bool from_right) {
  const std::size_t limit = most < 0 ? kNowhere : static_cast<std::size_t>(most);
  if (!separator) {
    return from_right ? split_at_space_from_right(text, limit) : split_at_space(text, limit);
  }
  return from_right ? split_at_from_right(text, *separator, limit)
                    : split_at(text, *separator, limit);
}

std::vector<Slice> split_lines(const Text& text, bool keep_ends) {
  std::vector<Slice> out;
  const std::string_view bytes = text.bytes();
  std::size_t begin = 0;
  for (std::size_t at = 0; at < bytes.size();) {
    const std::size_t here = at;
    const char32_t c = next_code_point(bytes, at);
    if (!is_line_end(c)) continue;
    if (c == '\r' && at < bytes.size() && bytes[at] == '\n') ++at;
    out.push_back(part_of(text, begin, keep_ends ? at : here));
    begin = at;
  }
  if (begin < bytes.size()) out.push_back(part_of(text, begin, bytes.size()));
  return out;
}

std::size_t find_first(std::string_view text, std::string_view part) {
  return python::find(text, part);
}

std::size_t find_last(std::string_view text, std::string_view part) {
  const std::string backwards(text.rbegin(), text.rend());
  const std::size_t found = python::find(backwards, std::string(part.rbegin(), part.rend()));
  return found == kNowhere ? kNowhere : text.size() - found - part.size();
}

std::size_t count_of(std::string_view text, std::string_view part) {
  if (part.empty()) return count_code_points(text) + 1;
  std::size_t count = 0;
  for (std::size_t at = 0;; ++count) {
    const std::size_t found = python::find(text.substr(at), part);
    if (found == kNowhere) return count;
    at += found + part.size();
  }
}

Text replace(const Text& text, std::string_view from, const Text& to, std::int64_t most,
             Budget& budget) {
  TextBuilder out(budget);
  std::size_t done = 0, left = most < 0 ? kNowhere : static_cast<std::size_t>(most);
  const std::string_view bytes = text.bytes();
  if (from.empty()) {  // in front of each character, and at the end
    for (; left > 0; --left) {
      out.add(to);
      const std::size_t begin = done;
      if (begin == bytes.size()) break;
      next_code_point(bytes, done);
      out.add(part_of(text, begin, done));
    }
  }
  for (; left > 0 && !from.empty(); --left) {
    const std::size_t found = python::find(bytes.substr(done), from);
    if (found == kNowhere) break;
    out.add(part_of(text, done, done + found)).add(to);
    done += found + from.size();
  }
  out.add(part_of(text, done, bytes.size()));
  return out.finish();
}

std::string capitalize(std::string_view text) {
  if (text.empty()) return "";
  const std::string_view first = python::first_character(text);
  // Lower case of the whole, because a sigma depends on what is before it.
  const std::string lower = python::lower(text);
  const std::size_t head = python::lower(first).size();
  return title_character(first) + lower.substr(head);
}

std::string title(std::string_view text) {
  const std::string all_lower = python::lower(text);  // where a sigma knows what is around it
  std::string out;
  bool inside = false;  // of a word
  for (std::size_t at = 0, low = 0; at < text.size();) {
    const std::size_t begin = at;
    const char32_t c = next_code_point(text, at);
    const std::string_view character = text.substr(begin, at - begin);
    const std::size_t size = python::lower(character).size();
    out += inside ? all_lower.substr(low, size) : title_character(character);
    low += size;
    inside = python::is_cased(c);
  }
  return out;
}

std::string title_words(std::string_view text) {
  std::string out;
  const auto separates = [](char32_t c) {
    return python::is_space(c) || c == '-' || c == '(' || c == '{' || c == '[' || c == '<';
  };
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t begin = at;
    if (separates(next_code_point(text, at))) {
      out += text.substr(begin, at - begin);
      continue;
    }
    const std::size_t second = at;
    for (std::size_t next = at; at < text.size(); at = next) {
      if (separates(next_code_point(text, next))) break;
    }
    out += python::upper(text.substr(begin, second - begin));
    out += python::lower(text.substr(second, at - second));
  }
  return out;
}

bool is_upper(std::string_view text) {
  return has_only_case(text, true);
}

bool is_lower(std::string_view text) {
  return has_only_case(text, false);
}

bool is_alpha(std::string_view text) {
  return all_are(text, is_letter);
}

bool is_digit(std::string_view text) {
  // Superscripts and circled digits, which are digits and not decimal, are left out.
  return all_are(text, [](char32_t c) { return python::decimal_digit(c) >= 0; });
}

bool is_alnum(std::string_view text) {
  return all_are(text, [](char32_t c) { return is_letter(c) || python::decimal_digit(c) >= 0; });
}

bool is_space(std::string_view text) {
  return all_are(text, [](char32_t c) { return python::is_space(c); });
}

std::size_t count_words(std::string_view text) {
  std::size_t count = 0;
  bool inside = false;
  for (std::size_t at = 0; at < text.size();) {
    const bool word = python::is_word(next_code_point(text, at));
    if (word && !inside) ++count;
    inside = word;
  }
  return count;
}

}  // namespace turnbench::jinja
