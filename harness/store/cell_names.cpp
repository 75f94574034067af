#include "harness/store/cell_names.h"

#include <algorithm>

#include "common/text.h"

namespace turnbench {

bool varies(const std::vector<Cell>& cells, std::string Cell::*label) {
  return std::any_of(cells.begin(), cells.end(),
                     [&](const Cell& c) { return c.*label != cells.front().*label; });
}

std::map<std::string, std::string> cell_names(const Store& store, const std::string& experiment) {
  std::map<std::string, std::string> out;
  const std::vector<Cell> cells = store.cells(experiment);
  const bool histories = varies(cells, &Cell::history), answers = varies(cells, &Cell::answers);
  for (const Cell& c : cells) {
    std::vector<std::string> name = {c.model, c.dataset, c.position, c.method};
    if (histories) name.push_back(c.history);
    if (answers) name.push_back(c.answers);
    out.emplace(c.key, printable(join(name, ", ")));
  }
  return out;
}

}  // namespace turnbench
