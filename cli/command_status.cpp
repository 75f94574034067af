#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/cli.h"
#include "cli/command_run.h"
#include "cli/input_output.h"
#include "cli/shard_output.h"
#include "cli/shared_options.h"
#include "cli/status_of_directory.h"
#include "common/file.h"
#include "common/json.h"
#include "common/text.h"
#include "harness/store/cell.h"
#include "harness/store/cell_names.h"
#include "harness/store/cell_progress.h"
#include "harness/store/inactive_methods.h"
#include "harness/store/stale.h"

namespace turnbench {
namespace {

/// The state of one experiment: dialogues done, failed and pending in all its cells, and the
/// failures.
OrderedJson status_of(const Store& store, const std::string& experiment) {
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

/// The time of the runs of an experiment's manifest.
OrderedJson time_of(const Store& store, const std::string& experiment) {
  const Store::RunTime time = store.run_time(experiment);
  return {{"runs", time.runs},
          {"units", time.units},
          {"seconds", time.seconds},
          {"worker_seconds", time.worker_seconds},
          {"engine_seconds", time.engine_seconds},
          {"outside_seconds", time.worker_seconds - time.engine_seconds}};
}

void print_time(const OrderedJson& time) {
  const double workers = time["worker_seconds"].get<double>(),
               outside = time["outside_seconds"].get<double>();
  fmt::print(
      "  time: {} units in {} runs, {:.1f} s; of the workers {:.1f} s: {:.1f} s in the engine, "
      "{:.1f} s ({:.1f}%) outside\n",
      time["units"].get<std::size_t>(), time["runs"].get<std::size_t>(),
      time["seconds"].get<double>(), workers, time["engine_seconds"].get<double>(), outside,
      workers > 0 ? 100 * outside / workers : 0.0);
}

void print_status(const std::string& db, const std::vector<OrderedJson>& states) {
  for (const OrderedJson& s : states) {
    fmt::print("{}: {} dialogues done, {} failed, {} pending\n", s["experiment"].get<std::string>(),
               s["done"].get<std::size_t>(), s["failed_dialogues"].get<std::size_t>(),
               s["pending"].get<std::size_t>());
    for (const OrderedJson& shard : s["shards"]) fmt::print("  {}\n", describe_shard(shard));
    if (s.contains("time")) print_time(s["time"]);
    if (s["not_imported"] > 0) {
      fmt::print("  {} dialogues without an imported prediction\n",
                 s["not_imported"].get<std::size_t>());
    }
    const std::string limited = s["length_limit"].get<std::string>();
    if (!limited.empty()) fmt::print("  {}\n", limited);
    for (const OrderedJson& line : s["inactive"]) fmt::print("  {}\n", line.get<std::string>());
    const std::string stale = s["stale"].get<std::string>();
    if (!stale.empty()) fmt::print("  stale: {}; run recomputes them\n", stale);
    if (s["failed"] > 0) {
      fmt::print("  {} records failed; `turnbench status {} retry` runs them again\n",
                 s["failed"].get<std::size_t>(), db);
    }
    for (const OrderedJson& f : s["failures"]) {
      fmt::print("  {}: {}, turn {}: {}\n", f["cell"].get<std::string>(),
                 f["dialogue"].get<std::string>(), f["turn"].get<int>(),
                 f["error"].get<std::string>());
    }
  }
}

/// Deletes the failed records of the experiments and runs these again: the shards that the store
/// has run, or else all units.
void retry(const Store& store, const std::vector<std::string>& experiments,
           const SweepOptions& options, const CommonOptions& common, int& exit_code) {
  std::vector<Manifest> manifests;
  std::vector<SweepPart> parts;
  for (const std::string& name : experiments) {
    const std::filesystem::path folder = store.directory(name);
    manifests.push_back(parse_manifest(store.manifest(name), store.path() + ": manifest of " + name,
                                       ManifestUse::kRun, folder));
    manifests.back().path = folder / (name + ".json");
    const std::vector<StoredShard> shards = store.shards(name);
    for (const StoredShard& s : shards) parts.push_back({manifests.back(), s.limit, s.shard});
    if (shards.empty()) parts.push_back({manifests.back()});
  }
  options.check_names(manifests);
  run_parts(parts, {store.path(), options, /*retry=*/true}, common, exit_code);
}

/// True if nothing is left to run or failed.  If the store runs shards, only their units count.
bool is_done(const OrderedJson& state) {
  if (state["failed"] > 0) return false;
  if (state["shards"].empty()) return state["pending"] == 0;
  return std::all_of(state["shards"].begin(), state["shards"].end(),
                     [](const OrderedJson& shard) { return shard["missing"] == 0; });
}

}  // namespace

void add_status_command(CLI::App& app, const CommonOptions& common, int& exit_code) {
  struct Options {
    std::string db, action;
    bool time = false;
    std::vector<std::string> experiment;
    SweepOptions sweep;
  };
  auto o = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand(
      "status",
      "Show what is done, failed and pending; `status DB retry` runs failed records again");
  command->footer(
      "Examples:\n"
      "  turnbench status results.db\n"
      "  turnbench status results.db retry\n"
      "  turnbench status sweep    # the folder of a sweep on a Slurm cluster, while its jobs run\n"
      "Exit codes: 0 all dialogues of all cells are done, 1 some failed or are pending, or no "
      "experiment has begun; dialogues without an imported prediction are neither. If the store "
      "has shards, only their units count.");
  command->add_option("db", o->db, "store, or the folder of turnbench slurm")->required();
  command->add_option("action", o->action, "retry")->check(one_of({"retry"}));
  command->add_option("--experiment", o->experiment, "only this experiment")->expected(1);
  command->add_flag("--time", o->time, "the time of runs, in the engine and outside");
  o->sweep.add_to(*command);
  command->callback([o, &common, &exit_code] {
    if (directory_exists(o->db)) {
      exit_code = status_of_directory(o->db, common);
      return;
    }
    const Store store = Store::open(o->db);
    const std::vector<std::string> experiments = select_experiments(store, o->experiment);
    if (o->action == "retry") return retry(store, experiments, o->sweep, common, exit_code);
    std::vector<OrderedJson> states;
    for (const std::string& name : experiments) {
      states.push_back(status_of(store, name));
      if (o->time) states.back()["time"] = time_of(store, name);
      if (!is_done(states.back())) exit_code = 1;
    }
    if (states.empty()) exit_code = 1;
    if (common.json) {
      fmt::print("{}\n", dump(OrderedJson(states)));
    } else if (states.empty()) {
      fmt::print("{}: no experiment has begun\n", printable(o->db));
    } else {
      print_status(printable(o->db), states);
    }
  });
}

}  // namespace turnbench
