#pragma once

#include <array>
#include <string>
#include <utility>
#include <vector>

#include "harness/store/cell.h"

namespace turnbench {

/// What tables call a cell.
struct CellLabel {
  const char* name;
  std::string Cell::*value;
};
inline constexpr std::array kCellLabels = {
    CellLabel{"model", &Cell::model},       CellLabel{"dataset", &Cell::dataset},
    CellLabel{"position", &Cell::position}, CellLabel{"method", &Cell::method},
    CellLabel{"history", &Cell::history},   CellLabel{"answers", &Cell::answers}};

/// The cells of two runs beside each other, in the order of the first run.
struct PairedCells {
  std::vector<std::pair<const Cell*, const Cell*>> pairs;
  std::vector<const Cell*> only_first, only_second;
};

/// Pairs cells by their labels in tables.
/// A label that is the same in all cells of each run does not count, so that the runs may differ in
/// it.  Of what is left, cells are paired that agree in all but the method's settings, where each
/// run has one such cell.
PairedCells pair_cells(const std::vector<Cell>& first, const std::vector<Cell>& second);

}  // namespace turnbench
