#pragma once

#include <array>
#include <string>
#include <utility>
#include <vector>

#include "harness/store/cell.h"

namespace turnbench {

/// The labels of a cell in tables.
struct CellLabel {
  const char* name;
  std::string Cell::*value;
};
inline constexpr std::array kCellLabels = {
    CellLabel{"model", &Cell::model},       CellLabel{"dataset", &Cell::dataset},
    CellLabel{"position", &Cell::position}, CellLabel{"method", &Cell::method},
    CellLabel{"history", &Cell::history},   CellLabel{"answers", &Cell::answers}};

/// The paired cells of two runs, in the order of the first run.
struct PairedCells {
  std::vector<std::pair<const Cell*, const Cell*>> pairs;
  std::vector<const Cell*> only_first, only_second;
};

/// Pairs cells by their labels in tables.  A label that is the same in all cells of each run is
/// ignored, so that the runs may differ in it.  Remaining cells are paired if they agree in
/// everything except the method's settings, and each run has only one such cell.
PairedCells pair_cells(const std::vector<Cell>& first, const std::vector<Cell>& second);

}  // namespace turnbench
