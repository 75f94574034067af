#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <thread>

#include "cli/cli.h"
#include "cli/command_run.h"
#include "cli/exit_signals.h"
#include "cli/input_output.h"
#include "cli/shard_output.h"
#include "cli/shared_options.h"
#include "cli/status_of_directory.h"
#include "common/error.h"
#include "common/file.h"
#include "common/json.h"
#include "common/text.h"
#include "reports/escape.h"
#include "reports/store_status.h"
#include "reports/store_version.h"

namespace turnbench {
namespace {

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

std::string time_text(const OrderedJson& time) {
  const double workers = time["worker_seconds"].get<double>(),
               outside = time["outside_seconds"].get<double>();
  return fmt::format(
      "  time: {} units in {} runs, {:.1f} s; of the workers {:.1f} s: {:.1f} s in the engine, "
      "{:.1f} s ({:.1f}%) outside",
      time["units"].get<std::size_t>(), time["runs"].get<std::size_t>(),
      time["seconds"].get<double>(), workers, time["engine_seconds"].get<double>(), outside,
      workers > 0 ? 100 * outside / workers : 0.0);
}

/// The lines for one experiment.
std::vector<std::string> status_lines(const std::string& db, const OrderedJson& s) {
  std::vector<std::string> out = {status_line(s)};
  for (const OrderedJson& shard : s["shards"]) out.push_back("  " + describe_shard(shard));
  if (s.contains("time")) out.push_back(time_text(s["time"]));
  if (s["not_imported"] > 0) {
    out.push_back(fmt::format("  {} dialogues without imported predictions of all turns",
                              s["not_imported"].get<std::size_t>()));
  }
  const std::string limited = s["length_limit"].get<std::string>();
  if (!limited.empty()) out.push_back("  " + limited);
  for (const OrderedJson& line : s["inactive"]) out.push_back("  " + line.get<std::string>());
  const std::string stale = s["stale"].get<std::string>();
  if (!stale.empty()) out.push_back(fmt::format("  stale: {}; run recomputes them", stale));
  if (s["failed"] > 0) {
    out.push_back(fmt::format("  {} records failed; `turnbench status {} retry` runs them again",
                              s["failed"].get<std::size_t>(), db));
  }
  for (const OrderedJson& f : s["failures"]) {
    out.push_back(fmt::format("  {}: {}, turn {}: {}", f["cell"].get<std::string>(),
                              f["dialogue"].get<std::string>(), f["turn"].get<int>(),
                              f["error"].get<std::string>()));
  }
  return out;
}

/// Names and errors may contain any character, so invisible ones are escaped.
std::string status_text(const std::string& db, const std::vector<OrderedJson>& states) {
  if (states.empty()) return one_line(db) + ": no experiment has begun\n";
  std::string out;
  for (const OrderedJson& state : states) {
    for (const std::string& line : status_lines(db, state)) out += one_line(line) + "\n";
  }
  return out;
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
  run_parts(parts, {store.path(), options, /*retry=*/true, /*only_failed=*/true}, common,
            exit_code);
}

struct StatusOptions {
  std::string db, action;
  bool time = false, watch = false;
  std::vector<std::string> experiment;
  SweepOptions sweep;
};

std::vector<OrderedJson> read_states(const StatusOptions& o) {
  const Store store = Store::open_snapshot(o.db);
  std::vector<OrderedJson> out;
  for (const std::string& name : select_experiments(store, o.experiment)) {
    out.push_back(experiment_status(store, name));
    if (o.time) out.back()["time"] = time_of(store, name);
  }
  return out;
}

/// Shows the state after each change until a signal ends the program: in place on a terminal, else
/// one line for each experiment that has changed.
[[noreturn]] void watch(const StatusOptions& o, bool json) {
  constexpr std::chrono::seconds kInterval{2};
  const bool is_terminal = isatty(STDOUT_FILENO) != 0 && !json;
  exit_at_signals();
  StoreVersion version(o.db);
  std::string shown;
  std::map<std::string, std::string> lines;  // by experiment
  for (;; std::this_thread::sleep_for(kInterval)) {
    const std::string now = version.now();
    if (now == shown) continue;
    shown = now;
    const std::vector<OrderedJson> states = read_states(o);
    if (is_terminal) fmt::print("\033[H\033[J{}", status_text(o.db, states));
    for (const OrderedJson& state : states) {
      std::string& line = lines[state["experiment"].get<std::string>()];
      std::string next = json ? dump(state) : status_line(state);
      if (!is_terminal && next != line) fmt::print("{}\n", next);
      line = std::move(next);
    }
    std::fflush(stdout);
  }
}

}  // namespace

void add_status_command(CLI::App& app, const CommonOptions& common, int& exit_code) {
  auto o = std::make_shared<StatusOptions>();
  CLI::App* command = app.add_subcommand(
      "status",
      "Show what is done, failed and pending; `status DB retry` runs failed records again");
  command->footer(
      "Examples:\n"
      "  turnbench status results.db\n"
      "  turnbench status results.db --watch    # while a run writes it\n"
      "  turnbench status results.db retry\n"
      "  turnbench status sweep    # the folder of a sweep on a Slurm cluster, while its jobs run\n"
      "Exit codes: 0 all dialogues of all cells are done, 1 some failed or are pending, or no "
      "experiment has begun; dialogues without imported predictions of all turns are neither. If "
      "the store "
      "has shards, only their units count.");
  command->add_option("db", o->db, "store, or the folder of turnbench slurm")->required();
  command->add_option("action", o->action, "retry")->check(one_of({"retry"}));
  command->add_option("--experiment", o->experiment, "only this experiment")->expected(1);
  command->add_flag("--time", o->time, "the time of runs, in the engine and outside");
  command->add_flag("--watch", o->watch,
                    "show every change until Ctrl-C, which ends with exit code 0; looks every 2 s. "
                    "On a terminal in place, else one line for each change");
  o->sweep.add_to(*command);
  command->callback([o, &common, &exit_code] {
    if (o->watch && !o->action.empty())
      throw input_error("--watch: found {} too, expected only one of them", o->action);
    if (directory_exists(o->db)) {
      if (o->watch)
        throw input_error("--watch: found the folder {}, expected a store", printable(o->db));
      exit_code = status_of_directory(o->db, common);
      return;
    }
    if (o->action == "retry") {
      const Store store = Store::open(o->db);
      return retry(store, select_experiments(store, o->experiment), o->sweep, common, exit_code);
    }
    if (o->watch) watch(*o, common.json);
    const std::vector<OrderedJson> states = read_states(*o);
    const bool all_done = std::all_of(states.begin(), states.end(), is_done);
    if (states.empty() || !all_done) exit_code = 1;
    fmt::print("{}", common.json ? dump(OrderedJson(states)) + "\n" : status_text(o->db, states));
  });
}

}  // namespace turnbench
