#include "harness/store/cell_names.h"

#include <fmt/format.h>

#include "common/text.h"

namespace turnbench {

std::map<std::string, std::string> cell_names(const Store& store, const std::string& experiment) {
  std::map<std::string, std::string> out;
  for (const Cell& c : store.cells(experiment)) {
    out.emplace(c.key,
                printable(fmt::format("{}, {}, {}, {}", c.model, c.dataset, c.position, c.method)));
  }
  return out;
}

}  // namespace turnbench
