#include "reports/html/text_html.h"

#include "reports/escape.h"

namespace turnbench {

std::string label_html(const std::string& text) {
  std::string out;
  for (char c : escape_markup(text)) {
    out += c;
    if (c == ':' || c == ',') out += "<wbr>";
  }
  return out;
}

std::string note_html(const std::string& text) {
  return text.empty() ? "" : "<p class=\"note\">" + escape_markup(text) + "</p>\n";
}

std::string details_html(const std::string& summary, const std::string& text) {
  return "<details><summary>" + escape_markup(summary) + "</summary><pre>" +
         escape_markup_block(text) + "</pre></details>\n";
}

}  // namespace turnbench
