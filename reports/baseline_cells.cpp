#include "reports/baseline_cells.h"

namespace turnbench {
namespace {

std::vector<std::string> in_common(const Cell& cell) {
  return {cell.model, cell.dataset, cell.position, cell.history, cell.answers};
}

}  // namespace

BaselineCells::BaselineCells(const Results& results, const std::string& method) {
  for (const Cell& cell : results.cells()) {
    if (cell.method == method) cells_.try_emplace(in_common(cell), &cell);
  }
}

const Cell* BaselineCells::of(const Cell& cell) const {
  const auto found = cells_.find(in_common(cell));
  return found == cells_.end() ? nullptr : found->second;
}

}  // namespace turnbench
