#pragma once

#include <string>
#include <vector>

#include "reports/estimate.h"
#include "reports/html/views.h"

namespace turnbench {

/// One experiment of a page.
struct PageSection {
  std::string id;  ///< anchor: "x-" and the experiment's name
  std::string title;
  std::string index_row;         ///< its row of the page's index, HTML
  std::string head, body;        ///< HTML: title and description, and the rest
  std::string dialogues;         ///< JSON for the script, or ""
  bool lacks_dialogues = false;  ///< because they are too large
  struct Link {
    std::string id, title;
  };
  std::vector<Link> contents;  ///< headings in the body
};

/// `metrics`: the experiment as `results_by_metric` returns it.  `alone`: the only section of its
/// page, whose title is then that of the page.
PageSection page_section(const std::vector<MetricResults>& metrics, const Comparison& comparison,
                         bool alone, ViewBudget& budget);

/// One self-contained page.  version: as `PageRequest::version`.
std::string page_html(const std::vector<PageSection>& sections, const std::string& version = "");

}  // namespace turnbench
