#include "reports/store_status.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "harness/store/cell.h"
#include "harness/store/cell_names.h"
#include "harness/store/cell_progress.h"
#include "harness/store/inactive_methods.h"
#include "harness/store/stale.h"
#include "reports/escape.h"

namespace turnbench {

OrderedJson experiment_status(const Store& store, const std::string& experiment) {
  CellProgress sum;              // cells that run computes
  std::size_t not_imported = 0;  // dialogues without imported predictions
  const auto progress = cell_progress(store, experiment);
  const std::vector<Cell> cells = store.cells(experiment);
  const std::map<std::string, CellUsage> usages = store.usages(experiment);
  for (const Cell& cell : cells) {
    const CellProgress& of_cell = progress.at(cell.key);
    sum.run += of_cell.run;
    sum.failed += of_cell.failed;
    sum.total += is_imported(cell) ? of_cell.run : of_cell.total;
    if (is_imported(cell)) not_imported += of_cell.pending();
  }
  const std::map<std::string, std::string> names = cell_names(store, experiment);
  const auto failures = store.failures(experiment);
  const std::vector<StaleCell> stale = stale_cells(store, experiment);
  OrderedJson out = {{"experiment", experiment},
                     {"done", sum.done()},
                     {"failed_dialogues", sum.failed},
                     {"pending", sum.pending()},
                     {"not_imported", not_imported},
                     {"failed", failures.size()},
                     {"failures", OrderedJson::array()},
                     {"shards", OrderedJson::array()},
                     {"length_limit", describe_limited(cells, usages)},
                     {"inactive", inactive_methods(cells, usages)},
                     {"stale", describe(stale)},
                     {"stale_cells", OrderedJson::array()}};
  for (const ShardProgress& p : shard_progress(store, experiment)) {
    out["shards"].push_back(to_json(p));
  }
  for (const StaleCell& s : stale) {
    out["stale_cells"].push_back({{"model", s.cell.model},
                                  {"dataset", s.cell.dataset},
                                  {"position", s.cell.position},
                                  {"method", s.cell.method},
                                  {"dialogues", s.dialogues},
                                  {"changed", s.changed}});
  }
  for (const auto& f : failures) {
    out["failures"].push_back({{"cell", names.at(f.cell)},
                               {"dialogue", f.dialogue},
                               {"turn", f.turn + 1},
                               {"error", f.error}});
  }
  return out;
}

bool is_done(const OrderedJson& status) {
  if (status["failed"] > 0) return false;
  const OrderedJson& shards = status["shards"];
  // With all shards of the sweep, a part of it can only be missing because of a --limit.
  if (shards.empty() || shards[0]["shards"] == shards.size()) return status["pending"] == 0;
  return std::all_of(shards.begin(), shards.end(),
                     [](const OrderedJson& shard) { return shard["missing"] == 0; });
}

std::string status_line(const OrderedJson& status) {
  return fmt::format(
      "{}: {} dialogues done, {} failed, {} pending",
      one_line(status["experiment"].get<std::string>()), status["done"].get<std::size_t>(),
      status["failed_dialogues"].get<std::size_t>(), status["pending"].get<std::size_t>());
}

OrderedJson to_json(const ShardProgress& p) {
  return {{"shard", p.shard.index}, {"shards", p.shard.count}, {"units", p.units},
          {"done", p.done},         {"failed", p.failed},      {"missing", p.missing}};
}

}  // namespace turnbench
