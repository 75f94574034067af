#include "reports/html/heat_map.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <optional>

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

/// The row dimension of a grid; nullopt if the table is none.
std::optional<std::size_t> grid_rows(const Pivot& pivot) {
  if (pivot.values.size() != 1 || pivot.column_dimensions.size() != 1 ||
      count_numbers(pivot.column_dimensions[0], pivot.columns, 0) < kFewestNumbers)
    return std::nullopt;
  std::optional<std::size_t> out;
  for (std::size_t i = 0; i < pivot.row_dimensions.size(); ++i) {
    if (count_numbers(pivot.row_dimensions[i], pivot.rows, i) < kFewestNumbers) continue;
    if (out) return std::nullopt;
    out = i;
  }
  return out;
}

/// The begin of a heat map, up to the heads of its columns.
std::string head_html(const Pivot& pivot, const std::string& row_heading,
                      const std::string& title) {
  const std::string column_heading = escape_markup(dimension_heading(pivot.column_dimensions[0]));
  std::string out = "<figure class=\"chart\">";
  if (!title.empty()) out += "<figcaption>" + escape_markup(title) + "</figcaption>";
  out += fmt::format(
      "<div class=\"map\"><table class=\"heat\"><caption>{0} by {1} and {2}</caption><thead><tr>"
      "<th></th><th scope=\"colgroup\" colspan=\"{3}\">{2}</th></tr>\n<tr><th scope=\"col\">{1}"
      "</th>",
      escape_markup(std::string(pivot.values.front()->name)), row_heading, column_heading,
      pivot.columns.size());
  for (const auto& column : pivot.columns)
    out += "<th scope=\"col\">" + escape_markup(column.front()) + "</th>";
  return out + "</tr></thead><tbody>\n";
}

std::string row_html(const Pivot& pivot, std::size_t r, const std::string& label,
                     const Scale& scale) {
  const int digits = pivot.values.front()->digits;
  std::string out = "<tr><th scope=\"row\">" + escape_markup(label) + "</th>";
  for (const auto& entry : pivot.entries[r]) {
    if (!entry || !entry->estimate.known) {
      out += "<td></td>";
      continue;
    }
    const double mean = entry->estimate.mean;
    out += fmt::format("<td style=\"--heat:{:.0f}%\" title=\"{}\">{}</td>", 100 * scale.share(mean),
                       estimate_text(entry->estimate, digits), number_text(mean, digits));
  }
  return out + "</tr>\n";
}

}  // namespace

std::vector<std::string> heat_maps_html(const Pivot& pivot) {
  const std::optional<std::size_t> dimension = grid_rows(pivot);
  if (!dimension) return {};
  std::vector<std::string> titles;
  std::map<std::string, std::vector<std::size_t>> rows;  // by title
  for (std::size_t r = 0; r < pivot.rows.size(); ++r) {
    std::vector<std::string> names = pivot.row_dimensions, values = pivot.rows[r];
    names.erase(names.begin() + static_cast<std::ptrdiff_t>(*dimension));
    values.erase(values.begin() + static_cast<std::ptrdiff_t>(*dimension));
    const std::string title = value_heading(names, values);
    if (!rows.contains(title)) titles.push_back(title);
    rows[title].push_back(r);
  }
  const Scale scale = scale_of(pivot);
  const int digits = pivot.values.front()->digits;
  std::vector<std::string> out;
  for (const std::string& title : titles) {
    std::string& map = out.emplace_back(head_html(
        pivot, escape_markup(dimension_heading(pivot.row_dimensions[*dimension])), title));
    for (const std::size_t r : rows[title])
      map += row_html(pivot, r, pivot.rows[r][*dimension], scale);
    map += fmt::format(
        "</tbody></table></div><p class=\"quantity\">{}; colours from {} to "
        "{}</p></figure>\n",
        escape_markup(mean_heading(*pivot.values.front())), number_text(scale.low, digits),
        number_text(scale.high, digits));
  }
  return out;
}

}  // namespace turnbench
