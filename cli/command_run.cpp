#include "cli/command_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <set>

#include "cli/cli.h"
#include "cli/input_output.h"
#include "cli/interrupts.h"
#include "cli/run_display.h"
#include "cli/shard_output.h"
#include "cli/shared_options.h"
#include "common/error.h"
#include "common/file.h"
#include "common/json.h"
#include "common/process_memory.h"
#include "common/text.h"
#include "harness/experiment/shards.h"
#include "harness/scoring/rescore.h"
#include "harness/store/cell_names.h"
#include "harness/store/compressed_file.h"
#include "harness/store/inactive_methods.h"
#include "harness/store/stale.h"
#include "inference/policy/policy_checks.h"
#include "reports/escape.h"
#include "reports/render.h"

namespace turnbench {
namespace {

/// Scores answers again whose scores come from other sources of the metric, and reports other stale
/// results.
void renew_scores(Store& store, const std::string& experiment, const Locations& locations) {
  const std::vector<StaleCell> stale = stale_cells(store, experiment);
  if (stale.empty()) return;
  fmt::print(stderr, "{}: {}; this run recomputes those that it covers\n", experiment,
             one_line(describe(stale)));
  if (std::none_of(stale.begin(), stale.end(),
                   [](const StaleCell& s) { return s.changed.contains("metrics"); }))
    return;
  auto metrics = store.scores_of_others(experiment, source_state().hashes.at("metrics")).metrics;
  std::set<std::pair<std::string, std::string>> renewed;  // "": each cell's own
  for (const Cell& cell : store.cells(experiment)) {
    const auto own = metrics.find({cell.metric, cell.postprocess});
    if (own != metrics.end() && own->second.erase(cell.key) > 0) renewed.emplace();
  }
  for (const auto& [metric, cells] : metrics) {
    if (!cells.empty()) renewed.insert(metric);
  }
  std::vector<std::string> different;
  for (const auto& [metric, postprocess] : renewed) {
    for (const CellScores& scores :
         rescore(store, experiment, {metric, postprocess, true, locations})) {
      different.insert(different.end(), scores.different.begin(), scores.different.end());
      different.insert(different.end(), scores.refused.begin(), scores.refused.end());
    }
  }
  print_problems("scored again", different, "more");
}

std::string report_on(const Store& store, const std::string& experiment,
                      const CommonOptions& common) {
  return render_report(Results(store, experiment), {common.json ? "json" : "md", false});
}

/// The result of a part: the manifest's tables, unless results of other shards are missing.
std::string result_of(const Store& store, const SweepPart& part, const CommonOptions& common) {
  const std::string& name = part.manifest.name;
  return part.shard && !is_complete(store, name)
             ? shard_report(store, name, *part.shard, common.json)
             : report_on(store, name, common);
}

/// The result of a part whose results are all in a read-only store.
/// @throws Error (runtime) if work remains.
std::string report_read_only(Plan plan, const SweepPart& part, const std::string& db,
                             const CommonOptions& common) {
  const Store store = Store::open(db);
  const std::string& name = plan.experiment.manifest.name;
  const std::vector<std::string> known = store.experiments();
  const bool is_planned = std::find(known.begin(), known.end(), name) != known.end() &&
                          store.manifest(name) == plan.experiment.manifest.text;
  const bool copies = !drop_stored_work(plan, store).empty();
  const bool is_recorded = !part.shard || !shard_report(store, name, *part.shard, true).empty();
  if (!is_planned || !is_recorded || copies || plan.unit_count() > 0 ||
      !stale_cells(store, name).empty()) {
    const std::string left =
        plan.unit_count() > 0 ? fmt::format("{} units", plan.unit_count()) : "entries in the store";
    if (is_compressed(db)) {
      throw input_error(
          "{}: found a compressed store, which can only be read, and {} of {} are left to run, "
          "expected a store (`turnbench copy` decompresses it)",
          db, left, name);
    }
    throw runtime_error("{}: cannot be written, and {} of {} are left to run", db, left, name);
  }
  if (!common.quiet) fmt::print(stderr, "{}: nothing is left to run\n", name);
  return result_of(store, part, common);
}

/// Prints the failed records, and how to run them again.  `earlier`: number before this run.
void print_failures(const Store& store, const std::string& experiment,
                    const std::vector<Store::Failure>& failures, std::size_t earlier) {
  std::vector<std::string> failed;
  const std::map<std::string, std::string> names = cell_names(store, experiment);
  for (const Store::Failure& f : failures) {
    failed.push_back(
        fmt::format("{}: {}, turn {}: {}", names.at(f.cell), f.dialogue, f.turn + 1, f.error));
  }
  print_problems("failed", failed, "more; see status");
  std::string of_earlier;
  if (earlier > 0)
    of_earlier = fmt::format(", {} of them in earlier runs", std::min(earlier, failed.size()));
  fmt::print(stderr,
             "{}: {} records failed{}; `run --retry` or `turnbench status {} retry` runs them "
             "again\n",
             experiment, failed.size(), of_earlier, printable(store.path()));
}

/// Conditions that an experiment's numbers do not show: truncated prompts and answers, and methods
/// without effect.
std::vector<std::string> notes_of(const Store& store, const std::string& experiment) {
  const std::vector<Cell> cells = store.cells(experiment);
  const std::map<std::string, CellUsage> usages = store.usages(experiment);
  std::vector<std::string> out = {describe(total(cells, store.truncations(experiment))),
                                  describe_limited(cells, usages)};
  for (std::string& line : inactive_methods(cells, usages)) out.push_back(std::move(line));
  std::erase(out, "");
  return out;
}

/// The dialogues with failed turns, by cell.
Work work_of(const std::vector<Store::Failure>& failures) {
  Work out;
  for (const Store::Failure& failure : failures) out.emplace(failure.cell, failure.dialogue);
  return out;
}

struct PartRun {
  std::string result;
  bool device_lost;
};

/// Runs the missing work of a part.  Its result is JSON if `common` requests it.  Sets `exit_code`
/// to 1 if units failed.
PartRun run_part(const SweepPart& part, const SweepTarget& target, const CommonOptions& common,
                 Interrupts& interrupts, int& exit_code) {
  const Manifest& manifest = part.manifest;
  const SweepOptions& options = target.options;
  const RunOptions run = options.run_options();
  Plan plan = make_plan(resolve_experiment(manifest, options.locations(), part.limit));
  for (const ResolvedModel& model : plan.experiment.models)
    model.checkpoint.stages(run.devices.size());
  for (const Method& method : manifest.methods)
    check_codec_memory(method.policies(), run.devices.front().cuda);
  std::optional<StoredShard> shard;
  if (part.shard) {
    PlannedLengths lengths(plan);
    shard = keep_shard(plan, *part.shard, lengths);
    shard->limit = part.limit;
  }
  if (path_exists(target.db) && !Store::is_writable(target.db))
    return {report_read_only(std::move(plan), part, target.db, common), false};
  Store store = Store::create(target.db);
  if (!common.quiet && !store.journal_note().empty())
    fmt::print(stderr, "{}\n", printable(store.journal_note()));
  store.add_experiment(stored_experiment(plan, run.devices, run.threads));
  if (shard) {
    store.put_shard(manifest.name, *shard);
  } else {
    store.remove_shards(manifest.name);
  }
  const auto failures = [&] {
    return shard ? failures_of(store, manifest.name, *shard) : store.failures(manifest.name);
  };
  if (target.retry) {
    if (target.only_failed) keep_work(plan, work_of(failures()));
    const int forgotten =
        shard ? store.forget_failed(manifest.name, *shard) : store.forget_failed(manifest.name);
    if (!common.quiet)
      fmt::print(stderr, "{}: {} failed records forgotten\n", manifest.name, forgotten);
  }
  store.copy_results(drop_stored_work(plan, store));
  renew_scores(store, manifest.name, options.locations());
  const std::size_t failed_earlier = failures().size();
  RunSummary summary;
  {
    RunDisplay display({.store = target.db,
                        .experiment = manifest.name,
                        .quiet = common.quiet,
                        .with_table = !manifest.isolated && store.journal_note().empty(),
                        .is_stopping = [&] { return interrupts.any(); }});
    if (plan.unit_count() > 0) display.show({.units = plan.unit_count()});
    interrupts.set_idle(false);
    summary = run_plan(
        plan, store, run, [&] { return interrupts.any(); },
        [&](const Progress& p) { display.show(p); });
    interrupts.set_idle(true);
  }
  const Progress& p = summary.progress;
  if (p.seconds > 0) {
    store.add_run_time(manifest.name, {1, p.units_done - summary.elsewhere, p.seconds,
                                       summary.worker_seconds, summary.engine_seconds});
  }
  if (!common.quiet) {
    fmt::print(
        stderr, "{}: {} units done in {:.1f} s{}, {} tokens/s, peak memory {:.0f} MiB\n",
        manifest.name, p.units_done, p.seconds,
        summary.elsewhere > 0 ? fmt::format(" ({} by other runs)", summary.elsewhere) : "",
        p.seconds > 0 ? static_cast<std::int64_t>(static_cast<double>(p.tokens) / p.seconds) : 0,
        static_cast<double>(peak_resident_bytes() + summary.process_bytes) / (1 << 20));
  }
  for (const std::string& note : notes_of(store, manifest.name)) {
    if (!common.quiet) fmt::print(stderr, "{}: {}\n", manifest.name, one_line(note));
  }
  if (!summary.batch_error.empty()) {
    fmt::print(stderr,
               "{}: cells failed while they ran together ({}), but not when they ran again "
               "alone, which gave the stored results: please report this\n",
               manifest.name, one_line(summary.batch_error));
  }
  if (!summary.lost_device.empty()) {
    exit_code = 1;
    fmt::print(stderr, "{}: stopped with {} of {} units done: {}; run it again to continue\n",
               manifest.name, p.units_done, p.units, summary.lost_device);
  } else if (summary.stopped) {
    interrupts.stop(fmt::format("{}: stopped with {} of {} units done; run it again to continue",
                                manifest.name, p.units_done, p.units));
  }
  if (const std::vector<Store::Failure> failed = failures(); !failed.empty()) {
    exit_code = 1;
    print_failures(store, manifest.name, failed, failed_earlier);
  }
  return {result_of(store, part, common), !summary.lost_device.empty()};
}

}  // namespace

void run_parts(const std::vector<SweepPart>& parts, const SweepTarget& target,
               const CommonOptions& common, int& exit_code) {
  std::vector<std::string> documents;
  Interrupts interrupts("stopping; units that cannot end within 10 s are abandoned");
  interrupts.set_idle(true);
  for (const SweepPart& part : parts) {
    if (interrupts.any()) {  // while the last unit of the part before ended
      interrupts.stop(fmt::format("{}: not started; run it again to continue", part.manifest.name));
    }
    PartRun run = run_part(part, target, common, interrupts, exit_code);
    if (!common.json) {
      fmt::print("{}", run.result);
      std::fflush(stdout);  // a signal may end the program while it is idle
    } else {
      documents.push_back(std::move(run.result));
    }
    if (run.device_lost) break;
  }
  if (common.json) print_documents(std::move(documents));
}

void add_run_command(CLI::App& app, const CommonOptions& common, int& exit_code) {
  struct Options {
    std::vector<std::string> manifests;
    std::string db;
    bool retry = false;
    ManifestOptions from;
  };
  auto o = std::make_shared<Options>();
  CLI::App* command =
      app.add_subcommand("run", "Run what the store lacks of a manifest, and print its tables");
  command->footer(
      "Examples:\n  turnbench run experiments/quickstart.json --db results.db\n"
      "  turnbench run experiments/sablock/table2.json --smoke --db smoke.db\n"
      "  turnbench run experiments/quickstart.json --shard 1/3 --db first.db    # one of three "
      "parts");
  command->add_option("manifest", o->manifests, "experiment files")->required();
  command->add_option("--db", o->db, "store (SQLite), created if missing")->required();
  command->add_flag("--retry", o->retry, "run failed records again, too");
  o->from.add_to(*command);
  command->callback([o, &common, &exit_code] {
    const std::optional<Shard> shard = o->from.shard();
    std::vector<SweepPart> parts;
    for (Manifest& manifest : o->from.load(o->manifests))
      parts.push_back({std::move(manifest), o->from.limit, shard});
    run_parts(parts, {o->db, o->from.sweep, o->retry}, common, exit_code);
  });
}

}  // namespace turnbench
