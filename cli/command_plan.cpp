#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "cli/cli.h"
#include "cli/input_output.h"
#include "cli/planned_run.h"
#include "cli/shared_options.h"
#include "common/error.h"
#include "common/file.h"
#include "common/process_memory.h"
#include "common/text.h"
#include "harness/experiment/plan_lines.h"
#include "harness/experiment/shards.h"
#include "inference/policy/policy_checks.h"
#include "runners/pilot.h"

namespace turnbench {
namespace {

constexpr std::size_t kStoreBytes = std::size_t{3} << 20;  // SQLite's page cache and other data
/// What a worker process adds to the memory of a thread: its own copies of pages of the heap
/// (measured on Linux as the proportional set sizes of parent and worker: 0.7 to 1.0 MiB).
constexpr std::size_t kProcessBytes = std::size_t{1} << 20;

struct PlanOptions {
  std::vector<std::string> manifests;
  std::string db, out;
  std::optional<double> power;
  bool no_measure = false;
  ManifestOptions from;
};

/// Plans manifests in the order in which they would run.
class Planning {
 public:
  explicit Planning(const PlanOptions& options)
      : options_(options), run_(options.from.sweep.run_options()) {
    if (!options.db.empty() && path_exists(options.db)) store_.emplace(Store::open(options.db));
    if (store_) stored_ = store_->timed_dialogues(environment_card(run_.devices));
  }

  PlannedRun plan(const Manifest& manifest) {
    for (const Method& method : manifest.methods)
      check_codec_memory(method.policies(), run_.devices.front().cuda);
    Plan plan = make_plan(
        resolve_experiment(manifest, options_.from.sweep.locations(), options_.from.limit));
    PlannedLengths lengths(plan);
    if (const std::optional<Shard> shard = options_.from.shard()) keep_shard(plan, *shard, lengths);
    std::vector<Unit> units = plan.units;  // with the work that the store holds
    std::vector<ProbeUnit> probe_units = plan.probe_units;
    PlannedRun out;
    out.name = manifest.name;
    std::vector<Store::ResultCopy> reused;
    if (store_) reused = drop_stored_work(plan, *store_);
    if (options_.power) {  // uses the current manifest, regardless of the manifest in the store
      Store store = store_->copy_in_memory();
      store.add_experiment(stored_experiment(plan, run_.devices));
      store.copy_results(reused);
      out.power.emplace(Results(store, manifest.name), *options_.power);
    }
    const Work missing = options_.out.empty() ? Work() : work_of(plan);
    drop_planned_work(plan, planned_);
    std::vector<int> workers;
    for (std::size_t m = 0; m < plan.experiment.models.size(); ++m)
      workers.push_back(assign_workers(plan, m, run_).workers);
    out.cost = estimate_cost(plan, run_.devices, lengths, workers);
    const std::size_t process = resident_bytes() + kStoreBytes;  // before any unit runs
    const Speeds speeds = speeds_for(plan, lengths, out);
    out.time = estimate_time(plan, speeds, lengths, workers, [&] {
      return make_backend(run_.devices.front(), run_.threads)->measure_ceilings();
    });
    expect_answers(plan, speeds, lengths, workers, out.cost);
    if (run_.processes) {
      for (PlanCost::Memory& memory : out.cost.memory) {
        memory.worker.if_answers_agree += kProcessBytes;
        memory.worker.if_answers_differ += kProcessBytes;
      }
    }
    out.memory = PlannedMemory(plan, out.cost, workers, process, run_.memory_limit);
    if (options_.out.empty()) return out;
    plan.units = std::move(units);
    plan.probe_units = std::move(probe_units);
    lines_ += plan_lines(plan, missing, speeds, lengths, run_.devices);
    return out;
  }

  /// The units of all manifests as lines of JSON, if --out is given.
  const std::string& lines() const { return lines_; }

 private:
  Speeds speeds_for(const Plan& plan, PlannedLengths& lengths, PlannedRun& out) const {
    Speeds speeds;
    const auto add = [&](const TimedDialogue& timed) {
      for (const ResolvedModel& model : plan.experiment.models) {
        if (model.hash != timed.model_hash || timed.isolated != plan.experiment.manifest.isolated)
          continue;
        speeds.add(model.checkpoint.config, timed);
        return true;
      }
      return false;
    };
    for (const TimedDialogue& timed : stored_) out.stored += add(timed);
    if (options_.no_measure) return speeds;
    for (std::size_t m = 0; m < plan.experiment.models.size(); ++m) {
      const Pilot pilot = run_pilot(plan, m, speeds, lengths, run_);
      for (const TimedDialogue& timed : pilot.times) add(timed);
      out.piloted += pilot.units;
    }
    return speeds;
  }

  /// Estimates the workers' memory for answers of the observed lengths.
  void expect_answers(const Plan& plan, const Speeds& speeds, const PlannedLengths& lengths,
                      const std::vector<int>& workers, PlanCost& cost) const {
    if (plan.experiment.manifest.isolated) return;  // answer lengths are fixed
    PlannedLengths expected = lengths.with_answers([&](std::size_t model, std::int64_t limit) {
      const MethodSpeed* seen = speeds.of_model(plan.experiment.models[model].hash);
      if (seen == nullptr || limit <= kPageTokens) return limit;
      const auto tokens = static_cast<std::int64_t>(seen->expected_answer(limit));
      return std::clamp<std::int64_t>(tokens, kPageTokens, limit);
    });
    for (std::size_t m = 0; m < cost.memory.size(); ++m) {
      WorkerBytes& worker = cost.memory[m].worker;
      worker.if_answers_agree =
          worker_bytes(plan, m, run_.devices, expected, workers[m]).if_answers_agree;
      // With shorter answers, units meet at other steps, which may need more memory.
      worker.if_answers_differ = std::max(worker.if_answers_differ, worker.if_answers_agree);
    }
  }

  const PlanOptions& options_;
  RunOptions run_;
  std::optional<Store> store_;
  std::vector<TimedDialogue> stored_;
  Work planned_;
  std::string lines_;
};

void check(const PlanOptions& o) {
  const bool there = !o.db.empty() && path_exists(o.db);
  if (o.power && !there) {
    throw input_error("--power: found {}, expected a store with results, whose variation it uses",
                      o.db.empty() ? "no --db" : printable(o.db) + " not found");
  }
  if (o.power && o.manifests.size() > 1)
    throw input_error("--power: found {} manifests, expected one", o.manifests.size());
  o.from.shard();  // throws for an invalid value
  if (o.out.empty()) return;
  const std::filesystem::path folder = std::filesystem::path(o.out).parent_path();
  if (directory_exists(o.out) || (!folder.empty() && !directory_exists(folder)))
    throw input_error("--out: found {}, expected a file in an existing folder", printable(o.out));
  require_own_file(o.out, "plan", [&] { return read_file(o.out).starts_with(kPlanStart); });
}

void plan(const PlanOptions& o, const CommonOptions& common) {
  check(o);
  const std::vector<Manifest> manifests = o.from.load(o.manifests);
  if (!o.db.empty() && !path_exists(o.db) && !common.quiet) {
    fmt::print(stderr, "{}: does not exist yet: planning for an empty store\n", printable(o.db));
  }
  Planning planning(o);
  PlannedRun total;
  OrderedJson each = OrderedJson::array();
  for (const Manifest& manifest : manifests) {
    const PlannedRun planned = planning.plan(manifest);
    if (!common.json) print(planned);
    each.push_back(to_json(planned));
    total += planned;
  }
  if (!o.out.empty()) write_file(o.out, planning.lines());
  if (common.json) {
    OrderedJson all = to_json(total);
    all["manifests"] = std::move(each);
    fmt::print("{}\n", dump(all));
  } else if (manifests.size() > 1) {
    total.name = fmt::format("all {} manifests", manifests.size());
    print(total);
  }
}

}  // namespace

void add_plan_command(CLI::App& app, const CommonOptions& common) {
  auto o = std::make_shared<PlanOptions>();
  CLI::App* command = app.add_subcommand(
      "plan", "Show what manifests would run: cells, units, tokens, time, memory; stores nothing");
  command->footer(
      "Examples:\n"
      "  turnbench plan experiments/quickstart.json\n"
      "  turnbench plan a.json b.json --db results.db    # with a total\n"
      "  turnbench plan experiments/quickstart.json --out plan.jsonl    # unit by unit\n"
      "  turnbench plan experiments/quickstart.json --db pilot.db --power 2    # 2 of 100 points\n"
      "The time is estimated from stored dialogues, on machines such as this one, and from a few "
      "units\n"
      "that are run now. Unknown are the lengths of other answers, the load of the machine, and "
      "the\n"
      "time to load the model.");
  command->add_option("manifest", o->manifests, "experiment files")->required();
  command->add_option("--db", o->db, "count only what this store lacks");
  command->add_option("--out", o->out, "file for the units as lines of JSON, with their costs");
  command->add_flag("--no-measure", o->no_measure, "do not run units to measure their time");
  command
      ->add_option(
          "--power", o->power,
          "with --db: number of dialogues that detect a difference of this many points to a "
          "table's baseline with a probability of 80%, if differences vary as the stored ones do")
      ->check(score_points());
  o->from.add_to(*command);
  command->callback([o, &common] { plan(*o, common); });
}

}  // namespace turnbench
