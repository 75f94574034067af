#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "common/json.h"
#include "harness/cli/cli.h"
#include "harness/cli/command_run.h"
#include "harness/cli/input_output.h"
#include "harness/cli/shared_options.h"
#include "harness/store/cell_names.h"
#include "harness/store/cell_progress.h"
#include "harness/store/stale.h"

namespace turnbench {
namespace {

/// The state of one experiment: dialogues done and pending in all its cells, and what failed.
OrderedJson status_of(const Store& store, const std::string& experiment) {
  std::size_t pending = 0, complete = 0;
  const auto progress = cell_progress(store, experiment);
  for (const Cell& cell : store.cells(experiment)) {
    complete += progress.at(cell.key).done;
    pending += progress.at(cell.key).pending();
  }
  const std::map<std::string, std::string> names = cell_names(store, experiment);
  const auto failures = store.failures(experiment);
  const std::vector<StaleCell> stale = stale_cells(store, experiment);
  OrderedJson out = {{"experiment", experiment},
                     {"done", complete},
                     {"pending", pending},
                     {"failed", failures.size()},
                     {"failures", OrderedJson::array()},
                     {"stale", describe(stale)},
                     {"stale_cells", OrderedJson::array()}};
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

void print_status(const std::vector<OrderedJson>& states) {
  for (const OrderedJson& s : states) {
    fmt::print("{}: {} dialogues done, {} pending, {} records failed\n",
               s["experiment"].get<std::string>(), s["done"].get<std::size_t>(),
               s["pending"].get<std::size_t>(), s["failed"].get<std::size_t>());
    const std::string stale = s["stale"].get<std::string>();
    if (!stale.empty()) fmt::print("  stale: {}; run computes them anew\n", stale);
    for (const OrderedJson& f : s["failures"]) {
      fmt::print("  {}: {}, turn {}: {}\n", f["cell"].get<std::string>(),
                 f["dialogue"].get<std::string>(), f["turn"].get<int>(),
                 f["error"].get<std::string>());
    }
  }
}

/// Forgets the failed records of the experiments, and runs what is missing then.
void retry(Store& store, const std::vector<std::string>& experiments, const SweepOptions& options,
           const CommonOptions& common, int& exit_code) {
  std::vector<Manifest> manifests;
  for (const std::string& name : experiments) {
    const std::filesystem::path folder = store.directory(name);
    manifests.push_back(parse_manifest(store.manifest(name), store.path() + ": manifest of " + name,
                                       ManifestUse::kRun, folder));
    manifests.back().path = folder / (name + ".json");
  }
  for (const std::string& name : experiments) {
    const int forgotten = store.forget_failed(name);
    if (!common.quiet) fmt::print(stderr, "{}: {} failed records forgotten\n", name, forgotten);
  }
  run_manifests(manifests, store.path(), options, 0, common, exit_code);
}

}  // namespace

void add_status_command(CLI::App& app, const CommonOptions& common, int& exit_code) {
  struct Options {
    std::string db, action;
    std::vector<std::string> experiment;
    SweepOptions sweep;
  };
  auto o = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand(
      "status", "What is done, failed and pending; `status DB retry` runs failed records again");
  command->footer("Example: turnbench status results.db");
  command->add_option("db", o->db, "store")->required();
  command->add_option("action", o->action, "retry")->check(one_of({"retry"}));
  command->add_option("--experiment", o->experiment, "only this one")->expected(1);
  o->sweep.add_to(*command);
  command->callback([o, &common, &exit_code] {
    const bool writes = o->action == "retry";
    Store store = writes ? Store::open_to_write(o->db) : Store::open(o->db);
    const std::vector<std::string> experiments = select_experiments(store, o->experiment);
    if (writes) return retry(store, experiments, o->sweep, common, exit_code);
    std::vector<OrderedJson> states;
    for (const std::string& name : experiments) states.push_back(status_of(store, name));
    if (common.json) {
      fmt::print("{}\n", dump(OrderedJson(states)));
    } else {
      print_status(states);
    }
  });
}

}  // namespace turnbench
