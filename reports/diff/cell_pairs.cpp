#include "reports/diff/cell_pairs.h"

#include <algorithm>
#include <map>
#include <set>

namespace turnbench {
namespace {

using Label = std::string Cell::*;
using Place = std::vector<std::string>;

bool is_constant(const std::vector<Cell>& cells, Label label) {
  return std::all_of(cells.begin(), cells.end(),
                     [&](const Cell& cell) { return cell.*label == cells.front().*label; });
}

/// Cells by place; cells of the same place in table order.
using Places = std::map<Place, std::vector<const Cell*>>;

Places places_of(const std::vector<const Cell*>& cells, const std::vector<Label>& labels,
                 bool by_method_name) {
  Places out;
  for (const Cell* cell : cells) {
    Place place;
    for (const Label label : labels) {
      place.push_back(by_method_name && label == &Cell::method
                          ? setting_of(*cell, "name").value_or(cell->method)
                          : cell->*label);
    }
    if (by_method_name) place.emplace_back(is_probe(*cell) ? "probe" : "method");
    out[place].push_back(cell);
  }
  return out;
}

}  // namespace

PairedCells pair_cells(const std::vector<Cell>& first, const std::vector<Cell>& second) {
  std::vector<Label> labels;
  for (const CellLabel& label : kCellLabels) {
    if (!is_constant(first, label.value) || !is_constant(second, label.value))
      labels.push_back(label.value);
  }
  std::map<const Cell*, const Cell*> partner;
  std::set<const Cell*> taken;
  const auto left_of = [](const std::vector<Cell>& cells, const auto& done) {
    std::vector<const Cell*> out;
    for (const Cell& cell : cells) {
      if (!done.contains(&cell)) out.push_back(&cell);
    }
    return out;
  };
  const auto pair_places = [&](bool by_method_name) {
    const Places theirs = places_of(left_of(second, taken), labels, by_method_name);
    for (const auto& [place, cells] : places_of(left_of(first, partner), labels, by_method_name)) {
      const auto found = theirs.find(place);
      if (found == theirs.end()) continue;
      const std::vector<const Cell*>& others = found->second;
      if (by_method_name && (cells.size() > 1 || others.size() > 1)) continue;
      for (std::size_t i = 0; i < std::min(cells.size(), others.size()); ++i) {
        partner[cells[i]] = others[i];
        taken.insert(others[i]);
      }
    }
  };
  pair_places(/*by_method_name=*/false);
  pair_places(/*by_method_name=*/true);
  PairedCells out;
  for (const Cell& cell : first) {
    const auto found = partner.find(&cell);
    if (found == partner.end()) {
      out.only_first.push_back(&cell);
    } else {
      out.pairs.emplace_back(&cell, found->second);
    }
  }
  out.only_second = left_of(second, taken);
  return out;
}

}  // namespace turnbench
