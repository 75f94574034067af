#include "reports/escape.h"

#include <fmt/format.h>

#include <cstdint>

#include "common/text.h"

namespace turnbench {
namespace {

/// Whether a code point is invisible, or changes the display of its neighbours.
bool is_invisible(char32_t c) {
  return c < 0x20 || (c >= 0x7F && c < 0xA0) || c == 0xAD || c == 0x61C || c == 0x180E ||
         c == 0x200B || c == 0x200E || c == 0x200F || (c >= 0x2028 && c <= 0x202E) ||
         (c >= 0x2060 && c <= 0x206F) || c == 0xFEFF || (c >= 0xFFF9 && c <= 0xFFFB) ||
         (c >= 0xE0000 && c <= 0xE007F);
}

/// Copies `text` with invisible characters escaped; line ends and tabs are kept.
std::string spelled_out(std::string_view text) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t start = at;
    const char32_t c = next_code_point(text, at);
    const std::string_view bytes = text.substr(start, at - start);
    const bool ill_formed = c == 0xFFFD && bytes.size() == 1;
    if (c == '\n' || c == '\r' || c == '\t' || !(ill_formed || is_invisible(c))) {
      out += bytes;
    } else if (ill_formed || c < 0x80) {
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(bytes[0]));
    } else {
      out += fmt::format("\\u{:04x}", static_cast<std::uint32_t>(c));
    }
  }
  return out;
}

std::string with_entities(std::string_view text) {
  std::string out;
  for (char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

/// A letter or digit of any script, between which Markdown ignores an underscore.
bool is_word(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
         static_cast<unsigned char>(c) >= 0x80;
}

/// Whether text begins like an entity: &lt; or &#60;.
bool begins_entity(std::string_view text) {
  const std::size_t end = text.find(';');
  if (end == text.npos || end < 2) return false;
  for (char c : text.substr(1, end - 1)) {
    if (!is_word(c) && c != '#') return false;
  }
  return true;
}

bool begins_formula(std::string_view text) {
  for (const std::string_view sign : {"=", "+", "-", "@", "＝", "＋", "－", "＠"}) {
    if (text.size() > sign.size() && text.starts_with(sign)) return true;
  }
  return false;
}

}  // namespace

std::string one_line(std::string_view text) {
  std::string out = spelled_out(text);
  for (char& c : out) {
    if (c == '\n' || c == '\r' || c == '\t') c = ' ';
  }
  return out;
}

std::string escape_markup(std::string_view text) {
  return with_entities(one_line(text));
}

std::string escape_markup_block(std::string_view text) {
  return with_entities(spelled_out(text));
}

namespace {

/// Writes the characters of a JSON document that `escapes` names as escapes.
std::string with_json_escapes(std::string_view json, bool (*escapes)(char32_t)) {
  std::string out;
  for (std::size_t at = 0; at < json.size();) {
    const std::size_t start = at;
    const char32_t c = next_code_point(json, at);
    const auto escape = [&](char32_t unit) {
      out += fmt::format("\\u{:04x}", static_cast<std::uint32_t>(unit));
    };
    if (!escapes(c)) {
      out += json.substr(start, at - start);
    } else if (c > 0xFFFF) {
      escape(0xD800 + ((c - 0x10000) >> 10));
      escape(0xDC00 + ((c - 0x10000) & 0x3FF));
    } else {
      escape(c);
    }
  }
  return out;
}

}  // namespace

std::string escape_script(std::string_view json) {
  return with_json_escapes(
      json, [](char32_t c) { return c == '<' || c == '>' || c == '&' || is_invisible(c); });
}

std::string escape_json(std::string_view json) {
  return with_json_escapes(json, [](char32_t c) { return c >= 0x7F && is_invisible(c); });
}

std::string escape_markdown(std::string_view text) {
  const std::string line = trim(one_line(text));
  std::string out;
  for (std::size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    const bool inside_word =
        i > 0 && i + 1 < line.size() && is_word(line[i - 1]) && is_word(line[i + 1]);
    if (c == '<' || c == '>') {
      out += c == '<' ? "&lt;" : "&gt;";
    } else if (c == '&' && begins_entity(std::string_view(line).substr(i))) {
      out += "&amp;";
    } else {
      if (std::string_view("\\`*[]|~$").find(c) != std::string_view::npos ||
          (c == '_' && !inside_word)) {
        out += '\\';
      }
      out += c;
    }
  }
  return out;
}

std::string markdown_paragraph(std::string_view text) {
  std::string out = escape_markdown(text);
  std::size_t marker = out.find_first_not_of("0123456789");
  if (marker == out.npos) return out;
  const bool block = marker == 0 ? std::string_view("#+-=").find(out[0]) != std::string_view::npos
                                 : out[marker] == '.' || out[marker] == ')';
  if (block) out.insert(marker, "\\");
  return out;
}

std::string markdown_row(const std::vector<std::string>& fields) {
  std::string out = "|";
  for (const std::string& field : fields) out += " " + field + " |";
  return out + "\n";
}

std::string escape_latex(std::string_view text) {
  const std::string line = trim(one_line(text));
  std::string out;
  for (std::size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    switch (c) {
      case '\\':
        out += "\\textbackslash{}";
        break;
      case '~':
        out += "\\textasciitilde{}";
        break;
      case '^':
        out += "\\textasciicircum{}";
        break;
      case '<':
        out += "\\textless{}";
        break;
      case '>':
        out += "\\textgreater{}";
        break;
      case '|':
        out += "\\textbar{}";
        break;
      case '"':  // a command in some LaTeX languages
        out += "\\char34{}";
        break;
      case '[':
      case '*':
        out += i == 0 ? fmt::format("{{{}}}", c) : std::string(1, c);
        break;
      case '&':
      case '%':
      case '$':
      case '#':
      case '_':
      case '{':
      case '}':
        out += '\\';
        [[fallthrough]];
      default:
        out += c;
    }
  }
  return out;
}

std::string csv_field(std::string_view text, bool guard_formulas) {
  std::string line = one_line(text);
  const bool number = parse_number<double>(line).has_value() ||
                      (line.starts_with('+') && parse_number<double>(line.substr(1)));
  if (guard_formulas && !number && begins_formula(trim(line))) line.insert(0, "'");
  const bool comment = line.starts_with('#');
  if (!comment && line.find_first_of(",;\"") == std::string::npos) return line;
  return "\"" + replace_all(line, "\"", "\"\"") + "\"";
}

int text_width(std::string_view text) {
  int out = 0;
  for (std::size_t at = 0; at < text.size();) {
    const char32_t c = next_code_point(text, at);
    out += (c >= 0x1100 && c <= 0x11FF) || (c >= 0x2E80 && c <= 0xD7FF) ||
                   (c >= 0xF900 && c <= 0xFAFF) || (c >= 0xFF00 && c <= 0xFF60) || c >= 0x1F300
               ? 2
               : 1;
  }
  return out;
}

std::vector<std::string> wrapped(std::string_view text, int width) {
  std::vector<std::string> out(1);
  const auto add = [&](std::string_view piece) {
    if (!out.back().empty() && text_width(out.back()) + 1 + text_width(piece) > width)
      out.emplace_back();
    if (!out.back().empty()) out.back() += ' ';
    out.back() += piece;
  };
  for (const std::string& word : split(text, " ")) {
    std::string piece;
    for (std::size_t at = 0; at < word.size();) {
      const std::size_t start = at;
      next_code_point(word, at);
      const std::string_view letter = std::string_view(word).substr(start, at - start);
      if (!piece.empty() && text_width(piece) + text_width(letter) > width) {
        add(piece);
        piece.clear();
      }
      piece += letter;
    }
    if (!piece.empty()) add(piece);
  }
  return out;
}

}  // namespace turnbench
