#include "common/special_casing.h"

#include <utf8proc.h>

#include <algorithm>
#include <iterator>
#include <string_view>

namespace turnbench::python {
namespace {

struct Range {
  char32_t first, last;
};

/// Cased without being a letter of category Lu, Ll or Lt, and not case-ignorable.
constexpr Range kOtherCased[] = {{0xAA, 0xAA},      {0xBA, 0xBA},       {0x2160, 0x217F},
                                 {0x24B6, 0x24E9},  {0x1F130, 0x1F149}, {0x1F150, 0x1F169},
                                 {0x1F170, 0x1F189}};

/// Case-ignorable punctuation: apostrophes, full stops, colons and middle dots.
constexpr std::u32string_view kIgnorablePunctuation =
    U"\u0027\u002E\u003A\u00B7\u0387\u055F\u05F4\u2018\u2019\u2024\u2027\uFE13\uFE52\uFE55\uFF07"
    U"\uFF0E\uFF1A";

struct UpperMapping {
  char32_t from;
  std::u32string_view to;
};

/// In order of `from`; the block 1F80..1FAF is regular and handled by rule.
constexpr UpperMapping kUpper[] = {{0x00DF, U"SS"},
                                   {0x0149, U"\u02BCN"},
                                   {0x01F0, U"J\u030C"},
                                   {0x0390, U"\u0399\u0308\u0301"},
                                   {0x03B0, U"\u03A5\u0308\u0301"},
                                   {0x0587, U"\u0535\u0552"},
                                   {0x1E96, U"H\u0331"},
                                   {0x1E97, U"T\u0308"},
                                   {0x1E98, U"W\u030A"},
                                   {0x1E99, U"Y\u030A"},
                                   {0x1E9A, U"A\u02BE"},
                                   {0x1F50, U"\u03A5\u0313"},
                                   {0x1F52, U"\u03A5\u0313\u0300"},
                                   {0x1F54, U"\u03A5\u0313\u0301"},
                                   {0x1F56, U"\u03A5\u0313\u0342"},
                                   {0x1FB2, U"\u1FBA\u0399"},
                                   {0x1FB3, U"\u0391\u0399"},
                                   {0x1FB4, U"\u0386\u0399"},
                                   {0x1FB6, U"\u0391\u0342"},
                                   {0x1FB7, U"\u0391\u0342\u0399"},
                                   {0x1FBC, U"\u0391\u0399"},
                                   {0x1FC2, U"\u1FCA\u0399"},
                                   {0x1FC3, U"\u0397\u0399"},
                                   {0x1FC4, U"\u0389\u0399"},
                                   {0x1FC6, U"\u0397\u0342"},
                                   {0x1FC7, U"\u0397\u0342\u0399"},
                                   {0x1FCC, U"\u0397\u0399"},
                                   {0x1FD2, U"\u0399\u0308\u0300"},
                                   {0x1FD3, U"\u0399\u0308\u0301"},
                                   {0x1FD6, U"\u0399\u0342"},
                                   {0x1FD7, U"\u0399\u0308\u0342"},
                                   {0x1FE2, U"\u03A5\u0308\u0300"},
                                   {0x1FE3, U"\u03A5\u0308\u0301"},
                                   {0x1FE4, U"\u03A1\u0313"},
                                   {0x1FE6, U"\u03A5\u0342"},
                                   {0x1FE7, U"\u03A5\u0308\u0342"},
                                   {0x1FF2, U"\u1FFA\u0399"},
                                   {0x1FF3, U"\u03A9\u0399"},
                                   {0x1FF4, U"\u038F\u0399"},
                                   {0x1FF6, U"\u03A9\u0342"},
                                   {0x1FF7, U"\u03A9\u0342\u0399"},
                                   {0x1FFC, U"\u03A9\u0399"},
                                   {0xFB00, U"FF"},
                                   {0xFB01, U"FI"},
                                   {0xFB02, U"FL"},
                                   {0xFB03, U"FFI"},
                                   {0xFB04, U"FFL"},
                                   {0xFB05, U"ST"},
                                   {0xFB06, U"ST"},
                                   {0xFB13, U"\u0544\u0546"},
                                   {0xFB14, U"\u0544\u0535"},
                                   {0xFB15, U"\u0544\u053B"},
                                   {0xFB16, U"\u054E\u0546"},
                                   {0xFB17, U"\u0544\u053D"}};

}  // namespace

bool is_cased(char32_t c) {
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(c))) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
      return true;
    default:
      return std::any_of(std::begin(kOtherCased), std::end(kOtherCased),
                         [c](Range range) { return c >= range.first && c <= range.last; });
  }
}

bool is_case_ignorable(char32_t c) {
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(c))) {
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_SK:
      return true;
    default:
      return kIgnorablePunctuation.find(c) != std::u32string_view::npos;
  }
}

std::u32string special_upper(char32_t c) {
  if (c >= 0x1F80 && c < 0x1FB0) {  // alpha, eta and omega with an iota below
    const char32_t base = c < 0x1F90 ? 0x1F08 : c < 0x1FA0 ? 0x1F28 : 0x1F68;
    return {base + (c & 7), 0x399};
  }
  const auto* found = std::lower_bound(
      std::begin(kUpper), std::end(kUpper), c,
      [](const UpperMapping& mapping, char32_t value) { return mapping.from < value; });
  if (found == std::end(kUpper) || found->from != c) return {};
  return std::u32string(found->to);
}

}  // namespace turnbench::python
