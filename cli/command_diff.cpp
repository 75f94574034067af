#include <fmt/format.h>

#include <optional>

#include "cli/cli.h"
#include "common/error.h"
#include "common/text.h"
#include "reports/diff/render_diff.h"

namespace turnbench {
namespace {

struct DiffOptions {
  std::string first, second, format = "md", metric, postprocess;
  std::vector<std::string> experiments;
  bool all = false, exit_code = false;
};

/// The named experiment of a store, or else its latest.
Run run_of(const Store& store, const std::string& named) {
  if (!named.empty()) return {&store, select_experiments(store, {named}).front()};
  const std::vector<std::string> all = store.experiments();
  if (all.empty())
    throw input_error("{}: found no experiment, expected at least one", store.path());
  return {&store, all.back()};
}

void compare_runs(const DiffOptions& o, bool json, int& exit_code) {
  if (o.experiments.size() > 2) {
    throw input_error("--experiment: found it {} times, expected it once for each run",
                      o.experiments.size());
  }
  if (o.second.empty() && o.experiments.size() < 2) {
    throw input_error(
        "diff: found one store and {}, expected a second store, or --experiment twice",
        o.experiments.empty() ? "no --experiment" : "one --experiment");
  }
  if (!o.postprocess.empty() && o.metric.empty())
    throw input_error("--postprocess: found no --metric, expected it too");
  const Store first = Store::open(o.first);
  std::optional<Store> other;
  if (!o.second.empty()) other.emplace(Store::open(o.second));
  const Store& second = other ? *other : first;
  const std::string name = o.experiments.empty() ? "" : o.experiments.front();
  const RunDiff found =
      diff(run_of(first, name), run_of(second, o.experiments.size() < 2 ? name : o.experiments[1]),
           {o.metric, o.postprocess});
  fmt::print("{}", json ? render_diff_json(found) : render_diff_markdown(found, o.all));
  if (o.exit_code && !found.same_results()) exit_code = 1;
}

}  // namespace

void add_diff_command(CLI::App& app, const CommonOptions& common, int& exit_code) {
  auto o = std::make_shared<DiffOptions>();
  CLI::App* command = app.add_subcommand(
      "diff", "Compare two runs: where their protocols differ, and which cells differ by how much");
  command->footer(
      "Examples:\n  turnbench diff before.db after.db --exit-code    # did a change move results?\n"
      "  turnbench diff a.db b.db --experiment quickstart --all\n"
      "  turnbench diff results.db --experiment window-32 --experiment window-8");
  command->add_option("first", o->first, "store of run A")->required();
  command->add_option("second", o->second, "store of run B; default: the same store");
  command
      ->add_option("--experiment", o->experiments,
                   "experiment; once: of both stores; twice: of A and of B; default: the latest of "
                   "each store")
      ->expected(1)
      ->take_all();
  command->add_option("--metric", o->metric,
                      "compare scores of this metric, which both stores must have");
  command->add_option("--postprocess", o->postprocess,
                      "with --metric: post-processing or judge of the scores");
  const CLI::Option* format =
      command->add_option("--format", o->format, "md, or json with all fields and cells")
          ->check(one_of({"md", "json"}));
  command->add_flag("--all", o->all,
                    "list every field in which the protocols differ, not only the first");
  command->add_flag("--exit-code", o->exit_code,
                    "exit with 1 unless both runs have the same cells and dialogues with the same "
                    "answers, scores and counters");
  command->callback([o, format, &common, &exit_code] {
    if (common.json && format->count() > 0 && o->format != "json")
      throw input_error("--json: found --format {} too, expected only one of them", o->format);
    compare_runs(*o, common.json || o->format == "json", exit_code);
  });
}

}  // namespace turnbench
