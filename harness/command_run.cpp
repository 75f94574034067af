#include <fmt/format.h>

#include <csignal>
#include <cstdlib>

#include "common/error.h"
#include "harness/cli.h"
#include "reports/render.h"
#include "runners/progress.h"

namespace turnbench {
namespace {

volatile std::sig_atomic_t interrupts = 0;

/// The first signal asks the sweep to stop after what is in flight; the second ends the program.
extern "C" void on_interrupt(int signal) {
  interrupts = interrupts + 1;
  if (interrupts > 1) std::_Exit(128 + signal);
}

void print_table(const Store& store, const std::string& experiment, bool json) {
  const Results results(store, experiment);
  fmt::print("{}", render_report(results, {json ? "json" : "md", false}));
}

}  // namespace

void run_manifest(const Manifest& manifest, const std::string& db, const SweepOptions& options,
                  std::size_t limit, const CommonOptions& common, int& exit_code) {
  check_device(options.device);
  Plan plan = make_plan(manifest, options.locations(), limit);
  Store store = Store::create(db);
  store.add_plan(stored_plan(plan));
  drop_done(plan, store);
  RunOptions run = options.run;
  run.memory_limit = options.memory_limit_mib << 20;
  interrupts = 0;
  std::signal(SIGINT, on_interrupt);
  std::signal(SIGTERM, on_interrupt);
  RunSummary summary;
  {
    ProgressLine line(common.quiet);
    summary = run_plan(
        plan, store, run, [] { return interrupts > 0; }, [&](const Progress& p) { line.show(p); });
  }
  std::signal(SIGINT, SIG_DFL);
  std::signal(SIGTERM, SIG_DFL);
  const Progress& p = summary.progress;
  if (!common.quiet) {
    fmt::print(
        stderr, "{}: {} units done in {:.1f} s, {} tokens/s\n", manifest.name, p.units_done,
        p.seconds,
        p.seconds > 0 ? static_cast<std::int64_t>(static_cast<double>(p.tokens) / p.seconds) : 0);
  }
  if (summary.stopped) {
    throw runtime_error("{}: stopped with {} of {} units done; run it again to go on",
                        manifest.name, p.units_done, p.units);
  }
  print_table(store, manifest.name, common.json);
  const auto failures = store.failures(manifest.name);
  if (failures.empty()) return;
  exit_code = 1;
  for (std::size_t i = 0; i < failures.size() && i < 20; ++i) {
    fmt::print(stderr, "failed: {}, turn {}: {}\n", failures[i].dialogue, failures[i].turn + 1,
               failures[i].error);
  }
  if (failures.size() > 20)
    fmt::print(stderr, "failed: {} more; see status\n", failures.size() - 20);
}

void add_run_command(CLI::App& app, const CommonOptions& common, int& exit_code) {
  struct Options {
    std::vector<std::string> manifests;
    std::string db;
    std::size_t limit = 0;
    SweepOptions sweep;
  };
  auto o = std::make_shared<Options>();
  CLI::App* command =
      app.add_subcommand("run", "Run what the store lacks of a manifest, and print its table");
  command->footer("Example: turnbench run experiments/quickstart.json --db results.db");
  command->add_option("manifest", o->manifests, "experiment files")->required();
  command->add_option("--db", o->db, "store (SQLite), made if it is not there")->required();
  command->add_option("--limit", o->limit, "dialogues of each dataset; 0: all");
  o->sweep.add_to(*command);
  command->callback([o, &common, &exit_code] {
    for (const std::string& path : o->manifests) {
      run_manifest(load_manifest(path), o->db, o->sweep, o->limit, common, exit_code);
    }
  });
}

void add_status_command(CLI::App& app, const CommonOptions& common, int& exit_code) {
  struct Options {
    std::string db, action, experiment;
    SweepOptions sweep;
  };
  auto o = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand(
      "status", "What is done, failed and pending; `status DB retry` runs failed records again");
  command->footer("Example: turnbench status results.db");
  command->add_option("db", o->db, "store")->required();
  command->add_option("action", o->action, "retry")->check(CLI::IsMember({"retry"}));
  command->add_option("--experiment", o->experiment, "only this one");
  o->sweep.add_to(*command);
  command->callback([o, &common, &exit_code] {
    Store store = Store::open(o->db);
    for (const std::string& name : store.experiments()) {
      if (!o->experiment.empty() && o->experiment != name) continue;
      if (o->action == "retry") {
        const int forgotten = store.forget_failed(name);
        fmt::print(stderr, "{}: {} failed records forgotten\n", name, forgotten);
        Manifest manifest = parse_manifest(store.manifest(name), o->db + ": manifest of " + name);
        manifest.path = std::filesystem::path(store.directory(name)) / (name + ".json");
        run_manifest(manifest, o->db, o->sweep, 0, common, exit_code);
        continue;
      }
      std::int64_t pending = 0, complete = 0;
      const auto done = store.done(name);
      for (const Cell& cell : store.cells(name)) {
        for (const auto& [id, turns] : store.dialogues(cell.dataset_hash)) {
          const auto found = done.find({cell.key, id});
          const bool is_done = found != done.end() && found->second == turns;
          ++(is_done ? complete : pending);
        }
      }
      const auto failures = store.failures(name);
      if (common.json) {
        fmt::print("{{\"experiment\": \"{}\", \"done\": {}, \"pending\": {}, \"failed\": {}}}\n",
                   name, complete, pending, failures.size());
      } else {
        fmt::print("{}: {} dialogues done, {} pending, {} records failed\n", name, complete,
                   pending, failures.size());
        for (const auto& f : failures)
          fmt::print("  {}, turn {}: {}\n", f.dialogue, f.turn + 1, f.error);
      }
    }
  });
}

void add_plan_command(CLI::App& app, const CommonOptions& common) {
  struct Options {
    std::vector<std::string> manifests;
    std::string db;
    std::size_t limit = 0;
    SweepOptions sweep;
  };
  auto o = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand(
      "plan", "What a manifest would run: cells, units, tokens, memory; runs nothing");
  command->footer("Example: turnbench plan experiments/quickstart.json");
  command->add_option("manifest", o->manifests, "experiment files")->required();
  command->add_option("--db", o->db, "count only what this store lacks");
  command->add_option("--limit", o->limit, "dialogues of each dataset; 0: all");
  o->sweep.add_to(*command);
  command->callback([o, &common] {
    for (const std::string& path : o->manifests) {
      Plan plan = make_plan(load_manifest(path), o->sweep.locations(), o->limit);
      if (!o->db.empty()) drop_done(plan, Store::open(o->db));
      const PlanCost c = estimate_cost(plan);
      if (common.json) {
        fmt::print(
            "{{\"experiment\": \"{}\", \"cells\": {}, \"units\": {}, \"shared_prefills\": {}, "
            "\"unshared_prefills\": {}, "
            "\"prompt_tokens\": {}, \"unshared_prompt_tokens\": {}, \"max_new_tokens\": {}, "
            "\"longest_prompt\": {}, "
            "\"memory_bytes\": {}, \"prefill_flop\": {:.0f}}}\n",
            plan.manifest.name, c.cells, c.units, c.shared_prefills, c.cell_dialogues,
            c.prompt_tokens, c.unshared_tokens, c.max_new_tokens, c.longest_prompt, c.memory_bytes,
            c.flops);
        continue;
      }
      fmt::print(
          "{}\n  cells            {}\n  work units       {}\n  prefills         {} shared, instead "
          "of {}\n"
          "  prompt tokens    {} computed, instead of {}\n  answer tokens    at most {}\n"
          "  longest prompt   {} tokens\n  memory           about {:.0f} MiB a worker\n"
          "  prefill          {:.2f} TFLOP, about {:.0f} s at 100 GFLOP/s\n",
          plan.manifest.name, c.cells, c.units, c.shared_prefills, c.cell_dialogues,
          c.prompt_tokens, c.unshared_tokens, c.max_new_tokens, c.longest_prompt,
          static_cast<double>(c.memory_bytes) / (1 << 20), c.flops / 1e12, c.flops / 1e11);
    }
  });
}

}  // namespace turnbench
