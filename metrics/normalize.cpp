#include "metrics/normalize.h"

#include <algorithm>

#include "common/python_text.h"
#include "common/text.h"

namespace turnbench {
namespace {

bool is_ascii_punctuation(char32_t c) {
  return (c >= '!' && c <= '/') || (c >= ':' && c <= '@') || (c >= '[' && c <= '`') ||
         (c >= '{' && c <= '~');
}

/// The list of the official scorers, as data.
constexpr std::u32string_view kChinesePunctuation =
    U"！？｡。＂＃＄％＆＇（）＊＋，－／：；＜＝＞＠［＼］＾＿｀｛｜｝～｟｠｢｣､、〃》「」『』【】〔"
    U"〕〖〗〘〙"
    U"〚〛〜〝〞〟〰〾〿–—‘’‛“”„‟…‧﹏.";

std::u32string lowered(std::string_view text) {
  return python::lower(to_code_points(text));
}

/// Removes punctuation, articles and the word `other`, and reduces white space to single spaces.
std::string bare_words(std::u32string_view text, std::u32string_view other = U"") {
  std::u32string kept;
  for (char32_t c : text) {
    if (!is_ascii_punctuation(c)) kept += c;
  }
  std::u32string out;
  bool space = false;  // white space or an article since the last character written
  for (std::size_t i = 0; i < kept.size();) {
    std::size_t end = i;
    while (end < kept.size() && python::is_word(kept[end])) ++end;
    const std::u32string_view word = std::u32string_view(kept).substr(i, end - i);
    if (word == U"a" || word == U"an" || word == U"the" ||
        (word.empty() ? python::is_space(kept[i]) : word == other)) {
      space = true;
      i = std::max(end, i + 1);
      continue;
    }
    if (space && !out.empty()) out += U' ';
    space = false;
    end = std::max(end, i + 1);
    out.append(kept, i, end - i);
    i = end;
  }
  return to_utf8(out);
}

}  // namespace

std::string normalize_english(std::string_view text) {
  return bare_words(lowered(text));
}

std::string normalize_english_cased(std::string_view text) {
  return bare_words(to_code_points(text));
}

std::string normalize_locomo(std::string_view text) {
  return bare_words(lowered(text), U"and");
}

std::string normalize_chinese(std::string_view text) {
  std::string out;
  for (char32_t c : lowered(text)) {
    if (is_ascii_punctuation(c) || python::is_space(c)) continue;
    if (kChinesePunctuation.find(c) == std::u32string_view::npos) append_utf8(out, c);
  }
  return out;
}

}  // namespace turnbench
