#include "reports/table_plots.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <set>

#include "common/text.h"
#include "reports/headings.h"
#include "reports/number_text.h"

namespace turnbench {
namespace {

using Values = std::vector<std::string>;

std::optional<double> decimal(std::string_view text) {
  double out = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return out;
}

/// The number of a setting: "256", "0.2" or "1/10".
std::optional<double> number(std::string_view text) {
  const std::size_t slash = text.find('/');
  if (slash == std::string_view::npos) return decimal(text);
  const auto above = decimal(text.substr(0, slash)), below = decimal(text.substr(slash + 1));
  if (!above || !below || *below == 0) return std::nullopt;
  return *above / *below;
}

bool may_vary_a_number(const std::string& dimension) {
  return dimension == "turn" || dimension == kLengthDimension || dimension == kDepthDimension ||
         (dimension.starts_with(kSettingPrefix) && dimension != kVariantDimension);
}

/// Whether budgets are shares of the prompt as well as numbers of tokens, which no axis can show.
bool has_two_units(const std::string& dimension, const std::set<double>& numbers) {
  return dimension == std::string(kSettingPrefix) + "budget" && *numbers.begin() < 1 &&
         *numbers.rbegin() > 1;
}

/// A dimension of rows or columns.
struct Place {
  bool is_row = false;
  std::size_t index = 0;
  bool is_at(bool row, std::size_t i) const { return row == is_row && i == index; }
};

/// The dimension with the most numbers, if there are enough.
std::optional<Place> x_dimension(const Pivot& pivot) {
  std::optional<Place> out;
  std::size_t most = kFewestNumbers - 1;
  for (const bool is_row : {true, false}) {
    const Values& names = is_row ? pivot.row_dimensions : pivot.column_dimensions;
    for (std::size_t i = 0; i < names.size(); ++i) {
      const std::size_t numbers = count_numbers(names[i], is_row ? pivot.rows : pivot.columns, i);
      if (numbers <= most) continue;
      most = numbers;
      out = Place{is_row, i};
    }
  }
  return out;
}

/// The text of all values but that of the x axis.
std::string rest_of(const Values& dimensions, const Values& values, bool is_row, const Place& x) {
  Values names, kept;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (x.is_at(is_row, i)) continue;
    names.push_back(dimensions[i]);
    kept.push_back(values[i]);
  }
  return kept.empty() ? "" : value_heading(names, kept);
}

/// Collects the points of a table's plots.
class PlotMaker {
 public:
  PlotMaker(const Pivot& pivot, const Place& x) : pivot_(pivot), x_(x) {}
  std::vector<Plot> make();

 private:
  struct Lines {
    std::vector<Plot::Series> series;
    std::map<std::string, std::size_t> places;
    Plot::Series& of(const std::string& name, bool is_level);
  };
  void add(std::size_t r, std::size_t c);
  Axis x_axis() const;

  const Pivot& pivot_;
  const Place& x_;
  std::vector<std::string> titles_;       ///< of the plots, in the order of the columns
  std::map<std::string, Lines> plots_;    ///< by title
  std::map<double, std::string> values_;  ///< of the x axis, as the table writes them
};

Plot::Series& PlotMaker::Lines::of(const std::string& name, bool is_level) {
  const auto [found, is_new] = places.try_emplace((is_level ? "-" : "+") + name, series.size());
  if (is_new) series.push_back({name, {}, is_level});
  return series[found->second];
}

void PlotMaker::add(std::size_t r, std::size_t c) {
  const auto& entry = pivot_.entries[r][c];
  if (!entry || !entry->estimate.known) return;
  const Values &row = pivot_.rows[r], &column = pivot_.columns[c];
  const std::string of_row = rest_of(pivot_.row_dimensions, row, true, x_),
                    of_column = rest_of(pivot_.column_dimensions, column, false, x_);
  const bool has_panels = !of_row.empty();
  const std::string panel = has_panels ? of_column : "", line = has_panels ? of_row : of_column;
  const std::string& value = (x_.is_row ? row : column)[x_.index];
  const std::optional<double> x = number(value);
  const auto [lines, is_new] = plots_.try_emplace(panel);
  if (is_new) titles_.push_back(panel);
  const std::string& dimension =
      (x_.is_row ? pivot_.row_dimensions : pivot_.column_dimensions)[x_.index];
  const std::string place = value_heading({dimension}, {value});
  const std::string name = line.empty() ? place : line + ", " + place;
  if (x) values_.try_emplace(*x, value);
  lines->second.of(line.empty() && !x ? place : line, !x)
      .points.push_back(point_at(x.value_or(0), entry->estimate, name,
                                 estimate_text(entry->estimate, pivot_.values.front()->digits)));
}

Axis PlotMaker::x_axis() const {
  const std::string& dimension =
      (x_.is_row ? pivot_.row_dimensions : pivot_.column_dimensions)[x_.index];
  std::vector<double> values;
  std::vector<std::string> texts;
  for (const auto& [value, text] : values_) {
    values.push_back(value);
    texts.push_back(text);
  }
  return fitting_axis(dimension_heading(dimension), values, texts);
}

std::vector<Plot> PlotMaker::make() {
  for (std::size_t c = 0; c < pivot_.columns.size(); ++c) {
    for (std::size_t r = 0; r < pivot_.rows.size(); ++r) add(r, c);
  }
  std::vector<Plot> out;
  if (values_.size() < kFewestNumbers) return out;  // too few of them have results
  for (const std::string& title : titles_) {
    std::vector<Plot::Series> series = std::move(plots_.at(title).series);
    sort_by_x(series);
    Plot& plot = out.emplace_back();
    plot.title = title;
    plot.x = x_axis();
    plot.y = mean_axis(*pivot_.values.front(), series);
    plot.series = std::move(series);
  }
  return out;
}

}  // namespace

std::size_t count_numbers(const std::string& dimension, const std::vector<Values>& values,
                          std::size_t index) {
  if (!may_vary_a_number(dimension)) return 0;
  std::set<double> numbers;
  for (const Values& all : values) {
    if (const auto x = number(all[index])) numbers.insert(*x);
  }
  return !numbers.empty() && has_two_units(dimension, numbers) ? 0 : numbers.size();
}

std::vector<Plot> table_plots(const Pivot& pivot) {
  const std::optional<Place> x = x_dimension(pivot);
  return x ? PlotMaker(pivot, *x).make() : std::vector<Plot>();
}

}  // namespace turnbench
