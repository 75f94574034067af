#pragma once

#include <string>
#include <vector>

#include "reports/results.h"
#include "reports/statistics/family.h"

namespace turnbench {

/// One experiment of a page.
struct PageSection {
  std::string id;  ///< anchor: "x-" and the experiment's name
  std::string title;
  std::string index_row;  ///< its row of the page's index, HTML
  std::string body;       ///< HTML
  struct Link {
    std::string id, title;
  };
  std::vector<Link> contents;  ///< headings in the body
};

/// `alone`: the only section of its page, whose title is then that of the page.
PageSection page_section(const Results& results, const Comparison& comparison, bool alone);

/// One self-contained page.
std::string page_html(const std::vector<PageSection>& sections);

}  // namespace turnbench
