#include "reports/table_layout.h"

#include <algorithm>
#include <iterator>

#include "harness/store/method_filter.h"

namespace turnbench {
namespace {

/// Sorts rows and columns in the manifest's order of the values of each dimension.  Cells are in
/// this order, so a value's rank is that of its first appearance.
class Order {
 public:
  using Place = std::vector<std::size_t>;
  Place place(const std::vector<std::string>& dimensions, const std::vector<std::string>& values) {
    Place out;
    for (std::size_t i = 0; i < dimensions.size(); ++i) {
      std::map<std::string, std::size_t>& ranks = ranks_[dimensions[i]];
      out.push_back(ranks.try_emplace(values[i], ranks.size()).first->second);
    }
    return out;
  }

 private:
  std::map<std::string, std::map<std::string, std::size_t>> ranks_;
};

bool includes(const std::vector<std::string>& list, std::string_view value) {
  return std::find(list.begin(), list.end(), value) != list.end();
}

/// The labels of the methods that a table shows.
std::set<std::string> shown_methods(const Results& results, const TableSpec& spec) {
  std::set<std::string> out;
  std::vector<MethodFilter> filters;
  for (const std::string& method : spec.methods) filters.emplace_back(method);
  for (const Cell& cell : distinct_methods(results.cells())) {
    const bool shown = filters.empty() ||
                       std::any_of(filters.begin(), filters.end(), [&](const MethodFilter& filter) {
                         return filter.matches(cell);
                       });
    if (shown) out.insert(cell.method);
  }
  return out;
}

}  // namespace

bool is_of_method(const std::string& dimension) {
  return dimension == "method" || dimension.starts_with(kSettingPrefix);
}

std::vector<const Cell*> cells_of(const TableParts& parts) {
  std::vector<const Cell*> out;
  for (const TablePart& part : parts) out.push_back(part.cell);
  return out;
}

TableParts scorable(const TableParts& parts) {
  TableParts out;
  std::copy_if(parts.begin(), parts.end(), std::back_inserter(out),
               [](const TablePart& part) { return part.has_reference; });
  return out;
}

TableLayout::TableLayout(const Results& results, const TableSpec& spec)
    : results_(results), spec_(spec) {
  for (const auto* list : {&spec.rows, &spec.columns})
    named_.insert(named_.end(), list->begin(), list->end());
  by_turn_ = includes(named_, "turn");
  for (const char* name : {"model", "dataset", "position", "method", "history", "answers"}) {
    if (!includes(named_, name) && results_.values_of(name).size() > 1) averaged_.push_back(name);
  }
  find_unreferenced();
  const bool only_imports = std::all_of(results_.cells().begin(), results_.cells().end(),
                                        [](const Cell& cell) { return is_imported(cell); });
  Order order;
  std::map<Order::Place, Values> rows, columns;
  std::map<std::pair<Order::Place, Order::Place>, TableParts> placed;
  std::set<std::string> seen;
  for (const TablePart& part : all_parts()) {
    if (seen.insert(part.cell->method).second) methods_.push_back(part.cell);
    Values row, column;
    for (const std::string& name : spec.rows) row.push_back(dimension(part, name));
    for (const std::string& name : spec.columns) column.push_back(dimension(part, name));
    const Order::Place r = order.place(spec.rows, row), c = order.place(spec.columns, column);
    rows[r] = std::move(row);
    columns[c] = std::move(column);
    placed[{r, c}].push_back(part);
    if (!part.has_reference) continue;
    Values& expected = expected_[place_of_peers(part)];
    const std::string own = dialogues_of(part);
    if ((only_imports || !is_imported(*part.cell)) && !includes(expected, own))
      expected.push_back(own);
  }
  for (const auto& [place, values] : columns) columns_.push_back(values);
  for (const auto& [row, values] : rows) {
    rows_.push_back(values);
    std::vector<TableParts>& of_row = parts_.emplace_back();
    for (const auto& [column, names] : columns) of_row.push_back(placed[{row, column}]);
  }
}

/// Finds datasets, or turns of them, without any reference, where values are scores that need one.
/// They are the same for all methods, including failed ones.
void TableLayout::find_unreferenced() {
  for (const Cell& cell : results_.cells()) {
    for (int turn = -1; turn < (by_turn_ ? results_.turns() : 0); ++turn) {
      for (const std::string& value : spec_.values) {
        const bool lacks_any = stratum({&cell, turn, &value}).without_reference > 0;
        if (lacks_any && !results_.has_reference(cell, turn))
          unreferenced_.emplace(cell.dataset_hash, turn, value);
      }
    }
  }
}

/// The parts of all entries, in the order of the cells.
std::vector<TablePart> TableLayout::all_parts() const {
  const std::set<std::string> shown = shown_methods(results_, spec_);
  std::vector<TablePart> out;
  for (const Cell& cell : results_.cells()) {
    if (!shown.contains(cell.method)) continue;
    const int turns = std::min(results_.turns(), results_.turns_of(cell));
    for (int turn = by_turn_ ? 0 : -1; turn < (by_turn_ ? turns : 0); ++turn) {
      for (const std::string& value : spec_.values) {
        const bool has_reference = !unreferenced_.contains({cell.dataset_hash, turn, value});
        out.push_back({&cell, turn, &value, has_reference});
      }
    }
  }
  return out;
}

std::string TableLayout::dialogues_of(const TablePart& part) const {
  Values out;
  for (const char* name : {"dataset", "position"}) {
    if (includes(averaged_, name)) out.push_back(dimension(part, name));
  }
  return join(out, ", ");
}

std::string TableLayout::dimension(const TablePart& part, const std::string& name) const {
  return name == kValueDimension ? *part.value : results_.dimension(*part.cell, part.turn, name);
}

/// The place of a part's entry, regardless of its method.
TableLayout::Values TableLayout::place_of_peers(const TablePart& part) const {
  Values out;
  for (const std::string& name : named_) {
    const bool is_setting =
        is_of_method(name) || name == "history" || name == "answers" || name == "model";
    if (!is_setting) out.push_back(dimension(part, name));
  }
  return out;
}

}  // namespace turnbench
