#include "text/tokenizer/unicode_forms.h"

#include <utf8proc.h>

#include <algorithm>
#include <iterator>
#include <string>
#include <vector>

#include "common/text.h"

namespace turnbench {
namespace {

struct CodePoints {
  char32_t first, last;
};

// Characters added after Unicode 9 with a combining class or a decomposition.
constexpr CodePoints kLaterThanUnicode9[] = {
    {0x07FD, 0x07FD},   {0x0898, 0x089F},   {0x08CA, 0x08D3},   {0x09FE, 0x09FE},
    {0x0C3C, 0x0C3C},   {0x0D3B, 0x0D3C},   {0x0EBA, 0x0EBA},   {0x1715, 0x1715},
    {0x1ABF, 0x1ACE},   {0x1DF6, 0x1DFA},   {0x32FF, 0x32FF},   {0xA7F2, 0xA7F4},
    {0xA82C, 0xA82C},   {0xAB69, 0xAB69},   {0x10781, 0x107BA}, {0x10D24, 0x10D27},
    {0x10EAB, 0x10EAC}, {0x10EFD, 0x10EFF}, {0x10F46, 0x10F50}, {0x10F82, 0x10F85},
    {0x11070, 0x11070}, {0x1133B, 0x1133B}, {0x1145E, 0x1145E}, {0x11839, 0x1183A},
    {0x11930, 0x11930}, {0x11938, 0x11938}, {0x1193D, 0x1193E}, {0x11943, 0x11943},
    {0x119E0, 0x119E0}, {0x11A34, 0x11A34}, {0x11A47, 0x11A47}, {0x11A99, 0x11A99},
    {0x11D42, 0x11D42}, {0x11D44, 0x11D45}, {0x11D97, 0x11D97}, {0x11F41, 0x11F42},
    {0x16FF0, 0x16FF1}, {0x1E030, 0x1E06D}, {0x1E08F, 0x1E08F}, {0x1E130, 0x1E136},
    {0x1E2AE, 0x1E2AE}, {0x1E2EC, 0x1E2EF}, {0x1E4EC, 0x1E4EF}, {0x1F16C, 0x1F16C},
    {0x1FBF0, 0x1FBF9},
};

bool is_inert(char32_t c) {
  const auto* range =
      std::lower_bound(std::begin(kLaterThanUnicode9), std::end(kLaterThanUnicode9), c,
                       [](const CodePoints& r, char32_t value) { return r.last < value; });
  return range != std::end(kLaterThanUnicode9) && range->first <= c;
}

using CodePoint = utf8proc_int32_t;
using CodePointList = std::vector<CodePoint>;

int options_of(UnicodeForm form) {
  const bool composed = form == UnicodeForm::kNfc || form == UnicodeForm::kNfkc;
  const bool compatible = form == UnicodeForm::kNfkc || form == UnicodeForm::kNfkd;
  return UTF8PROC_STABLE | (composed ? UTF8PROC_COMPOSE : UTF8PROC_DECOMPOSE) |
         (compatible ? UTF8PROC_COMPAT : 0);
}

void append_decomposition(char32_t c, int options, CodePointList& out) {
  constexpr std::size_t kLongest = 32;  // U+FDFA has 18
  const std::size_t old = out.size();
  out.resize(old + kLongest);
  int last_boundary = 0;  // of grapheme breaking, which is off
  const auto n = utf8proc_decompose_char(static_cast<CodePoint>(c), out.data() + old, kLongest,
                                         static_cast<utf8proc_option_t>(options), &last_boundary);
  out.resize(old + static_cast<std::size_t>(n));
}

/// True if `c`, whose decomposition starts with `first`, neither moves before nor composes with any
/// preceding character.
bool is_boundary(char32_t c, CodePoint first) {
  if (c < 0x300) return true;
  const utf8proc_property_t* property = utf8proc_get_property(first);
  const bool jamo_vowel_or_tail = first >= 0x1160 && first <= 0x11FF;
  const bool mark = property->category == UTF8PROC_CATEGORY_MN ||
                    property->category == UTF8PROC_CATEGORY_MC ||
                    property->category == UTF8PROC_CATEGORY_ME;
  return property->combining_class == 0 && !mark && !jamo_vowel_or_tail;
}

/// Sorts each run of combining marks by their classes.
void order_marks(CodePointList& points) {
  const auto combining_class = [](CodePoint c) {
    return utf8proc_get_property(c)->combining_class;
  };
  const auto is_mark = [&](CodePoint c) { return combining_class(c) != 0; };
  for (auto at = points.begin(); at != points.end();) {
    const auto begin = std::find_if(at, points.end(), is_mark);
    at = std::find_if_not(begin, points.end(), is_mark);
    std::stable_sort(begin, at, [&](CodePoint a, CodePoint b) {
      return combining_class(a) < combining_class(b);
    });
  }
}

/// Replaces `range` by `with`, except for unchanged characters at both ends.
void replace_difference(std::string_view text, TextRange range, std::string_view with,
                        TextRewriter& rewriter) {
  const auto inside_character = [](std::string_view s, std::size_t i) {
    return i < s.size() && is_utf8_continuation(s[i]);
  };
  const std::string_view old = text.substr(range.begin, range.end - range.begin);
  const std::size_t shorter = std::min(old.size(), with.size());
  std::size_t front = 0, back = 0;
  while (front < shorter && old[front] == with[front]) ++front;
  while (inside_character(old, front) || inside_character(with, front)) --front;
  while (back < shorter - front && old[old.size() - 1 - back] == with[with.size() - 1 - back]) {
    ++back;
  }
  while (back > 0 && inside_character(old, old.size() - back)) --back;
  if (old.size() == with.size() && front == old.size()) return;
  rewriter.replace({range.begin + front, range.end - back},
                   with.substr(front, with.size() - front - back));
}

}  // namespace

void apply_unicode_form(TracedText& text, UnicodeForm form) {
  const int options = options_of(form);
  const std::string_view view = text.view();
  const auto is_ascii = [&](std::size_t i) { return static_cast<unsigned char>(view[i]) < 0x80; };
  TextRewriter rewriter(text);
  // The text between two boundaries can be normalized separately.
  std::size_t begin = 0;
  CodePointList points, decomposition;
  std::string result;
  const auto finish_stretch = [&](std::size_t end) {
    if (points.empty()) return;
    if (points.size() > 1) order_marks(points);
    if (options & UTF8PROC_COMPOSE) {
      const auto n =
          utf8proc_normalize_utf32(points.data(), static_cast<utf8proc_ssize_t>(points.size()),
                                   static_cast<utf8proc_option_t>(options));
      points.resize(static_cast<std::size_t>(n));
    }
    result.clear();
    for (CodePoint c : points) append_utf8(result, static_cast<char32_t>(c));
    replace_difference(view, {begin, end}, result, rewriter);
    points.clear();
  };
  for (std::size_t i = 0; i < view.size();) {
    const std::size_t at = i;
    const char32_t c = next_code_point(view, i);
    const bool between_ascii = c < 0x80 && (i == view.size() || is_ascii(i));
    if (between_ascii || is_inert(c)) {
      finish_stretch(at);
      continue;
    }
    decomposition.clear();
    append_decomposition(c, options, decomposition);
    if (is_boundary(c, decomposition.front())) finish_stretch(at);
    if (points.empty()) begin = at;
    points.insert(points.end(), decomposition.begin(), decomposition.end());
  }
  finish_stretch(view.size());
  rewriter.finish();
}

void apply_lower_case(TracedText& text) {
  const std::string_view view = text.view();
  TextRewriter rewriter(text);
  std::string lower;
  for (std::size_t i = 0; i < view.size();) {
    const std::size_t begin = i;
    const char32_t c = next_code_point(view, i);
    const auto mapped = static_cast<char32_t>(utf8proc_tolower(static_cast<CodePoint>(c)));
    if (mapped == c) continue;
    lower.clear();
    append_utf8(lower, mapped);
    if (c == 0x130)
      append_utf8(lower, 0x307);  // the only letter whose lower case has two code points
    rewriter.replace({begin, i}, lower);
  }
  rewriter.finish();
}

bool is_white_space(char32_t c) {
  return (c >= 0x09 && c <= 0x0D) || c == ' ' || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F ||
         c == 0x3000;
}

}  // namespace turnbench
