#include "reports/html/answers_page.h"

#include <fmt/format.h>

#include "reports/escape.h"
#include "reports/html/assets.h"
#include "reports/html/text_html.h"
#include "reports/number_text.h"
#include "reports/report_file.h"

namespace turnbench {
namespace {

/// A block of text with its line ends.
std::string block_html(const std::string& text) {
  return "<div class=\"text\" dir=\"auto\">" + escape_markup_block(text) + "</div>";
}

std::string context_html(const std::vector<std::string>& context) {
  if (context.empty()) return "";
  std::string out = fmt::format("<details><summary>Context ({} {})</summary>", context.size(),
                                context.size() == 1 ? "part" : "parts");
  for (const std::string& part : context) out += block_html(part);
  return out + "</details>\n";
}

std::string answer_html(const MethodAnswer& answer) {
  const bool answered = answer.status == "ok" || !answer.answer.empty();
  const std::string body =
      answered
          ? block_html(answer.answer)
          : "<span class=\"alarm\">" +
                escape_markup(answer.status + (answer.error.empty() ? "" : ": " + answer.error)) +
                "</span>";
  return fmt::format(
      "<tr><th scope=\"row\" class=\"label\">{}</th><td>{}</td><td>{}{}</td><td "
      "class=\"label\">{}</td></tr>\n",
      label_html(answer.method), answer.score ? number_text(*answer.score, 1) : "",
      answer.tokens ? std::to_string(*answer.tokens) : "",
      answer.finish_reason == "length" ? " (limit)" : "", body);
}

}  // namespace

std::string answers_page_head(const std::string& experiment) {
  const std::string title = "Answers: " + escape_markup(experiment);
  return "<!doctype html>\n" + std::string(kMarkupMark) +
         fmt::format(
             "<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
             "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
             "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src "
             "'unsafe-inline'; base-uri 'none'; form-action 'none'\">\n"
             "<title>{0}</title>\n<style>\n{1}</style></head>\n<body>\n"
             "<header><span class=\"name\">turnbench</span> <span class=\"title\">{0}</span>"
             "</header>\n<main id=\"main\"><h1>{0}</h1>\n",
             title, page_style());
}

std::string to_html(const AnsweredTurn& turn) {
  const Cell& c = turn.cell;
  std::string out = fmt::format("<article><h3>{}, {}, turn {}</h3>\n", escape_markup(c.dataset),
                                escape_markup(turn.dialogue), turn.turn + 1);
  out +=
      note_html(fmt::format("Position of the question: {}; model {}, history {}, earlier answers "
                            "{}, metric {}",
                            c.position, c.model, c.history, c.answers, c.metric));
  if (turn.context) out += context_html(*turn.context);
  out += "<h4>Question</h4>" + block_html(turn.question) + "\n<h4>References</h4>" +
         "<div class=\"references\">";
  for (const std::string& reference : turn.references) out += block_html(reference);
  if (turn.references.empty()) out += "none";
  out +=
      "</div>\n<div class=\"scroll\" tabindex=\"0\"><table class=\"text\"><caption>Answers of all "
      "methods</caption><thead><tr><th scope=\"col\" class=\"label\">method</th><th "
      "scope=\"col\">score</th><th scope=\"col\">tokens</th><th scope=\"col\" "
      "class=\"label\">answer</th></tr></thead><tbody>\n";
  for (const MethodAnswer& answer : turn.answers) out += answer_html(answer);
  return out + "</tbody></table></div></article>\n";
}

std::string answers_page_end() {
  return "</main>\n</body></html>\n";
}

}  // namespace turnbench
