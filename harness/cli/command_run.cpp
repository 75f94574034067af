#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "common/error.h"
#include "common/json.h"
#include "common/process_memory.h"
#include "common/text.h"
#include "harness/cli/cli.h"
#include "harness/cli/input_output.h"
#include "harness/cli/interrupts.h"
#include "harness/cli/shared_options.h"
#include "harness/scoring/rescore.h"
#include "harness/store/cell_progress.h"
#include "harness/store/stale.h"
#include "reports/render.h"
#include "runners/progress.h"

namespace turnbench {
namespace {

/// By its key, what the tables call a cell: "tiny, tiny-fact, end, snapkv:budget=64".
std::map<std::string, std::string> cell_names(const Store& store, const std::string& experiment) {
  std::map<std::string, std::string> out;
  for (const Cell& c : store.cells(experiment)) {
    out.emplace(c.key,
                printable(fmt::format("{}, {}, {}, {}", c.model, c.dataset, c.position, c.method)));
  }
  return out;
}

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

/// Scores anew what other metrics' sources scored, and says what else is not of this program.
void renew_scores(Store& store, const std::string& experiment, const Locations& locations) {
  const std::vector<StaleCell> stale = stale_cells(store, experiment);
  if (stale.empty()) return;
  fmt::print(stderr, "{}: {}; what this run covers of them is computed anew\n", experiment,
             describe(stale));
  if (std::none_of(stale.begin(), stale.end(),
                   [](const StaleCell& s) { return s.changed.contains("metrics"); }))
    return;
  std::vector<std::string> different;
  for (const CellScores& scores : rescore(store, experiment, {"", "", true, locations})) {
    different.insert(different.end(), scores.different.begin(), scores.different.end());
    different.insert(different.end(), scores.refused.begin(), scores.refused.end());
  }
  print_problems("scored anew", different, "more");
}

/// Runs what the store lacks of a manifest.  Returns its tables, as JSON if `common` says so.  Sets
/// `exit_code` to 1 if units failed.
std::string run_manifest(const Manifest& manifest, const std::string& db,
                         const SweepOptions& options, std::size_t limit,
                         const CommonOptions& common, int& exit_code) {
  const RunOptions run = options.run_options();
  Plan plan = make_plan(resolve_experiment(manifest, options.locations(), limit));
  for (const ResolvedModel& model : plan.experiment.models)
    model.checkpoint.stages(run.devices.size());
  Store store = Store::create(db);
  store.add_experiment(stored_experiment(plan, run.devices));
  renew_scores(store, manifest.name, options.locations());
  store.copy_results(drop_stored_work(plan, store));
  RunSummary summary;
  {
    const Interrupts interrupts;
    ProgressLine line(common.quiet);
    summary = run_plan(
        plan, store, run, [&] { return interrupts.any(); },
        [&](const Progress& p) { line.show(p); });
  }
  const Progress& p = summary.progress;
  if (!common.quiet) {
    fmt::print(
        stderr, "{}: {} units done in {:.1f} s, {} tokens/s, peak memory {:.0f} MiB\n",
        manifest.name, p.units_done, p.seconds,
        p.seconds > 0 ? static_cast<std::int64_t>(static_cast<double>(p.tokens) / p.seconds) : 0,
        static_cast<double>(peak_resident_bytes()) / (1 << 20));
  }
  const std::string cut = describe(total(store.truncations(manifest.name)));
  if (!common.quiet && !cut.empty()) fmt::print(stderr, "{}: {}\n", manifest.name, cut);
  if (summary.stopped) {
    throw runtime_error("{}: stopped with {} of {} units done; run it again to go on",
                        manifest.name, p.units_done, p.units);
  }
  std::vector<std::string> failed;
  const std::map<std::string, std::string> names = cell_names(store, manifest.name);
  for (const Store::Failure& f : store.failures(manifest.name)) {
    failed.push_back(
        fmt::format("{}: {}, turn {}: {}", names.at(f.cell), f.dialogue, f.turn + 1, f.error));
  }
  if (!failed.empty()) exit_code = 1;
  print_problems("failed", failed, "more; see status");
  return render_report(Results(store, manifest.name), {common.json ? "json" : "md", false});
}

/// Runs each manifest and prints its table; as JSON one document, an array if there are several.
void run_manifests(const std::vector<Manifest>& manifests, const std::string& db,
                   const SweepOptions& options, std::size_t limit, const CommonOptions& common,
                   int& exit_code) {
  std::vector<std::string> documents;
  for (const Manifest& manifest : manifests) {
    std::string table = run_manifest(manifest, db, options, limit, common, exit_code);
    if (!common.json) {
      fmt::print("{}", table);
    } else {
      documents.push_back(std::move(table));
    }
  }
  if (common.json) print_documents(std::move(documents));
}

void retry(Store& store, const std::vector<std::string>& experiments, const SweepOptions& options,
           const CommonOptions& common, int& exit_code) {
  std::vector<Manifest> manifests;
  for (const std::string& name : experiments) {
    manifests.push_back(
        parse_manifest(store.manifest(name), store.path() + ": manifest of " + name));
    manifests.back().path = std::filesystem::path(store.directory(name)) / (name + ".json");
  }
  for (const std::string& name : experiments) {
    const int forgotten = store.forget_failed(name);
    if (!common.quiet) fmt::print(stderr, "{}: {} failed records forgotten\n", name, forgotten);
  }
  run_manifests(manifests, store.path(), options, 0, common, exit_code);
}

}  // namespace

void add_run_command(CLI::App& app, const CommonOptions& common, int& exit_code) {
  struct Options {
    std::vector<std::string> manifests;
    std::string db;
    ManifestOptions from;
  };
  auto o = std::make_shared<Options>();
  CLI::App* command =
      app.add_subcommand("run", "Run what the store lacks of a manifest, and print its table");
  command->footer(
      "Examples:\n  turnbench run experiments/quickstart.json --db results.db\n"
      "  turnbench run experiments/sablock/table2.json --smoke --db smoke.db");
  command->add_option("manifest", o->manifests, "experiment files")->required();
  command->add_option("--db", o->db, "store (SQLite), made if it is not there")->required();
  o->from.add_to(*command);
  command->callback([o, &common, &exit_code] {
    std::vector<Manifest> manifests;
    for (const std::string& path : o->manifests) manifests.push_back(o->from.load(path));
    run_manifests(manifests, o->db, o->from.sweep, o->from.limit, common, exit_code);
  });
}

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
