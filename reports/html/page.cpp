#include "reports/html/page.h"

#include <fmt/format.h>

#include "reports/escape.h"
#include "reports/html/assets.h"
#include "reports/html/dialogue_data.h"
#include "reports/html/text_html.h"
#include "reports/render.h"
#include "reports/report_file.h"
#include "reports/tables.h"

namespace turnbench {
namespace {

constexpr std::size_t kMostBytes = 10'000'000;  // of a page

/// No request leaves the page: the browser refuses all sources but the file itself.
constexpr const char* kPolicy =
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; base-uri 'none'; "
    "form-action 'none'";
/// Added for a page that a server sends: it asks this server for the store's version.
constexpr const char* kServedPolicy = "; connect-src 'self'";

std::string page_title(const std::vector<PageSection>& sections) {
  return sections.size() == 1 ? sections.front().title
                              : fmt::format("{} experiments", sections.size());
}

std::string link_html(const std::string& id, const std::string& title) {
  return fmt::format("<a href=\"#{}\">{}</a>", id, escape_markup(title));
}

std::string links_html(const PageSection& section) {
  std::string out = "<ul>";
  for (const PageSection::Link& link : section.contents)
    out += "<li>" + link_html(link.id, link.title) + "</li>";
  return out + "</ul>";
}

/// The list of all headings.
std::string contents_html(const std::vector<PageSection>& sections) {
  std::string out =
      "<nav aria-label=\"Contents\"><details id=\"contents\" open><summary>Contents</summary>\n";
  if (sections.size() == 1) {
    out += links_html(sections.front());
  } else {
    out += "<ul>";
    for (const PageSection& section : sections)
      out += "<li>" + link_html(section.id, section.title) + links_html(section) + "</li>\n";
    out += "</ul>";
  }
  return out + "\n</details></nav>\n";
}

/// A table of all experiments.
std::string index_html(const std::vector<PageSection>& sections) {
  std::string out =
      "<section class=\"result\" id=\"experiments\"><h1 id=\"experiments-title\">" +
      page_title(sections) +
      "</h1>\n<div class=\"view\"><div class=\"scroll\" role=\"region\" tabindex=\"0\" "
      "aria-labelledby=\"experiments-title\"><table "
      "class=\"text index\"><caption>Experiments</caption><thead><tr>";
  for (const char* name : {"experiment", "title", "models", "datasets"})
    out += fmt::format("<th scope=\"col\" class=\"label\">{}</th>", name);
  for (const char* name : {"methods", "dialogues in all cells", "failed records"})
    out += fmt::format("<th scope=\"col\">{}</th>", name);
  out += "<th scope=\"col\" class=\"label\">remarks</th></tr></thead><tbody>\n";
  for (const PageSection& section : sections) out += section.index_row;
  return out + "</tbody></table></div></div></section>\n";
}

}  // namespace

std::string page_html(const std::vector<PageSection>& sections, const std::string& version) {
  const bool served = !version.empty();
  const std::string title = escape_markup(page_title(sections));
  std::string out = "<!doctype html>\n" + std::string(kMarkupMark);
  out += fmt::format(
      "<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"{}{}\">\n"
      "<title>{}</title>\n<style>\n{}</style></head>\n<body{}>\n"
      "<a class=\"skip\" href=\"#main\">Skip to the results</a>\n"
      "<header><span class=\"name\">turnbench</span> <span class=\"title\">{}</span>"
      "<label class=\"control\" hidden>Theme <select id=\"theme\"><option "
      "value=\"\">system</option>"
      "<option>light</option><option>dark</option></select></label></header>\n"
      "<div class=\"layout\">\n",
      kPolicy, served ? kServedPolicy : "", title, page_style(),
      served ? fmt::format(" data-version=\"{}\"", escape_markup(version)) : "", title);
  out += contents_html(sections) + "<main id=\"main\">\n";
  if (sections.size() > 1) out += index_html(sections);
  std::size_t size = out.size() + page_script().size();
  for (const PageSection& section : sections) size += section.head.size() + section.body.size();
  for (const PageSection& section : sections) {
    const bool fits = size + section.dialogues.size() <= kMostBytes;
    if (fits) size += section.dialogues.size();
    out += section.head;
    if (section.lacks_dialogues || !fits) {
      out +=
          note_html(fmt::format("Its dialogues are left out, because the page would have more than "
                                "{} MB; turnbench answers "
                                "prints them.",
                                kMostBytes / 1'000'000));
    }
    out += section.body;
    if (fits && !section.dialogues.empty()) {
      out += "<script type=\"application/json\" class=\"dialogues\">" + section.dialogues +
             "</script>\n";
    }
    out += "</section>\n";
  }
  return out + "</main>\n</div>\n<script>\n" + page_script() +
         (served ? page_update_script() : "") + "</script>\n</body></html>\n";
}

std::string render_html(const Results& results, const Comparison& comparison) {
  ViewBudget budget;
  return page_html({page_section({as_metric(results)}, comparison, /*alone=*/true, budget)});
}

std::string render_html(const Store& store, const PageRequest& request,
                        const Comparison& comparison) {
  const bool alone = request.experiments.size() == 1;
  std::vector<PageSection> sections;
  ViewBudget budget;
  for (const std::string& name : request.experiments) {
    std::vector<MetricResults> metrics = results_by_metric(store, name, request.choice);
    if (!request.table.empty()) {
      const std::size_t table = find_table(metrics.front().results.tables(), request.table);
      for (MetricResults& metric : metrics) metric.results.keep_table(table);
    }
    PageSection& section = sections.emplace_back(page_section(metrics, comparison, alone, budget));
    std::optional<std::string> dialogues = dialogue_data(store, metrics, kMostBytes);
    section.lacks_dialogues = !dialogues;
    if (dialogues) section.dialogues = std::move(*dialogues);
  }
  return page_html(sections, request.version);
}

}  // namespace turnbench
