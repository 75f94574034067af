#include "reports/latex_text.h"

#include <array>

#include "common/text.h"
#include "reports/escape.h"

namespace turnbench {
namespace {

/// Widths of cmr10 in 1/1000 of the font size, from ' ' on; 0: another font, or no such character.
constexpr std::array<int, 95> kWidths = {333, 278, 500, 833, 500, 833, 778, 278,  389,
                                         389, 500, 778, 278, 333, 278, 500,  //  !"#$%&'()*+,-./
                                         500, 500, 500, 500, 500, 500, 500, 500,  500,
                                         500, 278, 278, 778, 778, 778, 472,  // 0-9:;<=>?
                                         778, 750, 708, 722, 764, 681, 653, 785,  750,
                                         361, 514, 778, 625, 917, 750, 778,  // @A-O
                                         681, 778, 736, 556, 722, 750, 750, 1028, 750,
                                         750, 611, 278, 500, 278, 500, 360,  // P-Z[\]^_
                                         278, 500, 556, 444, 556, 444, 306, 500,  556,
                                         278, 306, 528, 278, 833, 556, 500,  // `a-o
                                         556, 528, 392, 394, 389, 556, 528, 722,  528,
                                         528, 444, 500, 278, 500, 500};  // p-z{|}~

bool may_break_after(char c) {
  return std::string_view(":,+/").find(c) != std::string_view::npos;
}

}  // namespace

double latex_width(std::string_view text) {
  int out = 0;
  for (std::size_t at = 0; at < text.size();) {
    const char32_t c = next_code_point(text, at);
    const bool known = c >= U' ' && c <= U'~';
    out += known ? kWidths[static_cast<std::size_t>(c - U' ')] : 1000;
  }
  return out / 1000.0;
}

std::vector<std::string> latex_lines(std::string_view text, double width) {
  std::vector<std::string> out(1);
  std::string word;
  const auto add_word = [&] {
    if (!out.back().empty() && latex_width(trim(out.back() + word)) > width) {
      out.back() = trim(out.back());
      out.emplace_back();
    }
    out.back() += word;
    word.clear();
  };
  for (const char c : text) {
    word += c;
    if (c == ' ' || may_break_after(c)) add_word();
  }
  add_word();
  out.back() = trim(out.back());
  return out;
}

std::string breakable_latex(std::string_view text) {
  std::string out, word;
  const auto add_word = [&] {
    out += escape_latex(word);
    word.clear();
  };
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == ' ') {
      add_word();
      out += ' ';
      continue;
    }
    word += c;
    const bool divides = may_break_after(c) || c == '=' || c == '_';
    if (!divides || i + 1 == text.size() || text[i + 1] == ' ') continue;
    add_word();
    out += "\\allowbreak{}";
  }
  add_word();
  return out;
}

const std::vector<LatexSize>& latex_sizes() {
  // Fonts of 9 and 8 points are relatively wider.
  static const std::vector<LatexSize> sizes = {{"\\normalsize", 10.95, 13.6},
                                               {"\\small", 10, 12},
                                               {"\\footnotesize", 9 * 1.028, 11},
                                               {"\\scriptsize", 8 * 1.063, 9.5}};
  return sizes;
}

}  // namespace turnbench
