#include "reports/html/heat_map.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "reports/escape.h"
#include "reports/headings.h"
#include "reports/number_text.h"
#include "reports/table_plots.h"

namespace turnbench {
namespace {

struct Scale {
  double low = std::numeric_limits<double>::infinity(), high = -low;
  double share(double value) const { return high > low ? (value - low) / (high - low) : 1; }
};

Scale scale_of(const Pivot& pivot) {
  if (pivot.values.front()->is_share() && !pivot.values.front()->is_signed) return {0, 100};
  Scale out;
  for (const auto& row : pivot.entries) {
    for (const auto& entry : row) {
      if (!entry || !entry->estimate.known) continue;
      out.low = std::min(out.low, entry->estimate.mean);
      out.high = std::max(out.high, entry->estimate.mean);
    }
  }
  return out;
}

}  // namespace

bool is_grid(const Pivot& pivot) {
  return pivot.row_dimensions.size() == 1 && pivot.column_dimensions.size() == 1 &&
         count_numbers(pivot.row_dimensions[0], pivot.rows, 0) >= kFewestNumbers &&
         count_numbers(pivot.column_dimensions[0], pivot.columns, 0) >= kFewestNumbers;
}

std::string heat_map_html(const Pivot& pivot) {
  const Scale scale = scale_of(pivot);
  const int digits = pivot.values.front()->digits;
  const auto heading = [&](const std::string& dimension) {
    return escape_markup(dimension_heading(dimension));
  };
  std::string out = fmt::format(
      "<figure class=\"chart\"><div class=\"map\"><table class=\"heat\"><caption>{0} by {1} and "
      "{2}</caption><thead><tr><th></th><th scope=\"colgroup\" colspan=\"{3}\">{2}</th></tr>\n<tr>"
      "<th scope=\"col\">{1}</th>",
      escape_markup(std::string(pivot.values.front()->name)), heading(pivot.row_dimensions[0]),
      heading(pivot.column_dimensions[0]), pivot.columns.size());
  for (const auto& column : pivot.columns)
    out += "<th scope=\"col\">" + escape_markup(column.front()) + "</th>";
  out += "</tr></thead><tbody>\n";
  for (std::size_t r = 0; r < pivot.rows.size(); ++r) {
    out += "<tr><th scope=\"row\">" + escape_markup(pivot.rows[r].front()) + "</th>";
    for (const auto& entry : pivot.entries[r]) {
      if (!entry || !entry->estimate.known) {
        out += "<td></td>";
        continue;
      }
      const double mean = entry->estimate.mean;
      out +=
          fmt::format("<td style=\"--heat:{:.0f}%\" title=\"{}\">{}</td>", 100 * scale.share(mean),
                      estimate_text(entry->estimate, digits), number_text(mean, digits));
    }
    out += "</tr>\n";
  }
  return out + fmt::format(
                   "</tbody></table></div><p class=\"quantity\">mean {} ({}); colours from "
                   "{} to {}</p></figure>\n",
                   escape_markup(std::string(pivot.values.front()->name)),
                   pivot.values.front()->unit, number_text(scale.low, digits),
                   number_text(scale.high, digits));
}

}  // namespace turnbench
