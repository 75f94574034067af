#include "cli/shard_output.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "cli/input_output.h"
#include "common/text.h"
#include "harness/store/cell_progress.h"
#include "reports/store_status.h"

namespace turnbench {

std::string describe_shard(const OrderedJson& p) {
  const auto number = [&](const char* key) { return p.at(key).get<std::size_t>(); };
  return fmt::format("shard {}/{}: {} units, {} done, {} failed, {} missing", number("shard"),
                     number("shards"), number("units"), number("done"), number("failed"),
                     number("missing"));
}

bool is_complete(const Store& store, const std::string& experiment) {
  const auto progress = cell_progress(store, experiment);
  for (const Cell& cell : store.cells(experiment)) {
    if (!is_imported(cell) && progress.at(cell.key).pending() > 0) return false;
  }
  return true;
}

std::string shard_report(const Store& store, const std::string& experiment, const Shard& shard,
                         bool json) {
  for (const ShardProgress& p : shard_progress(store, experiment)) {
    if (p.shard.index != shard.index || p.shard.count != shard.count) continue;
    OrderedJson progress = to_json(p);
    if (!json) {
      return fmt::format(
          "{}: {}\nTables need the results of all {} shards: `turnbench merge ALL.db {} ...` joins "
          "the stores of the shards, `turnbench report ALL.db` prints the tables.\n",
          experiment, describe_shard(progress), shard.count, printable(store.path()));
    }
    OrderedJson out = {{"experiment", experiment}};
    out.update(progress);
    return dump(out);
  }
  return "";
}

}  // namespace turnbench
