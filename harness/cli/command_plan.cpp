#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "common/error.h"
#include "common/file.h"
#include "common/json.h"
#include "common/process_memory.h"
#include "common/text.h"
#include "harness/cli/cli.h"
#include "harness/cli/input_output.h"
#include "harness/cli/shared_options.h"
#include "harness/experiment/plan_cost.h"
#include "reports/escape.h"
#include "reports/pivot.h"

namespace turnbench {
namespace {

constexpr std::size_t kStoreBytes = std::size_t{3} << 20;  // SQLite's cache of pages, and more

/// What a run takes: this process as it stands, with its dialogues, then one model after the other
/// with its workers.
struct PlannedMemory {
  struct OfModel {
    std::string name;
    PlanCost::Memory bytes;
    int workers;
  };
  std::size_t process = resident_bytes() + kStoreBytes;
  std::vector<OfModel> models;
  std::size_t total = process, at_most = process;  ///< where answers agree, and where none do

  PlannedMemory(const Plan& plan, const PlanCost& cost, const RunOptions& options) {
    for (std::size_t m = 0; m < plan.experiment.models.size(); ++m) {
      const PlanCost::Memory& bytes = cost.memory[m];
      const auto workers = static_cast<std::size_t>(assign_workers(plan, m, options).workers);
      if (workers == 0) continue;  // nothing is left to do
      models.push_back({plan.experiment.models[m].entry.name, bytes, static_cast<int>(workers)});
      total = std::max(total, process + bytes.weights + workers * bytes.worker.if_answers_agree);
      at_most =
          std::max(at_most, process + bytes.weights + workers * bytes.worker.if_answers_differ);
    }
  }
};

OrderedJson to_json(const PlannedMemory& memory) {
  OrderedJson out = {{"total_bytes", memory.total},
                     {"at_most_bytes", memory.at_most},
                     {"process_bytes", memory.process},
                     {"models", OrderedJson::array()}};
  for (const PlannedMemory::OfModel& m : memory.models) {
    out["models"].push_back({{"model", m.name},
                             {"weights_bytes", m.bytes.weights},
                             {"workers", m.workers},
                             {"worker_bytes", m.bytes.worker.if_answers_agree},
                             {"worker_at_most_bytes", m.bytes.worker.if_answers_differ}});
  }
  return out;
}

/// --power: how many dialogues tell a difference of `points` apart, by what a store has.
struct PlannedPower {
  struct OfTable {
    std::string title;
    std::vector<NeededOfEntry> entries;
  };
  double points = 0;
  std::vector<OfTable> tables;  ///< that show differences

  PlannedPower(const Results& results, double points) : points(points) {
    for (const TableSpec& spec : results.manifest().tables) {
      if (spec.difference_to.empty() || !shows_scores(spec.value)) continue;
      tables.push_back({spec.title, needed_dialogues(results, spec, points)});
    }
  }
};

OrderedJson to_json(const PlannedPower& power) {
  OrderedJson out = {{"points", power.points}, {"power", .8}, {"tables", OrderedJson::array()}};
  for (const PlannedPower::OfTable& table : power.tables) {
    OrderedJson& json = out["tables"].emplace_back(
        OrderedJson{{"title", table.title}, {"entries", OrderedJson::array()}});
    for (const NeededOfEntry& e : table.entries) {
      const std::optional<int>& number = e.needed.number;
      json["entries"].push_back({{"row", e.row},
                                 {"column", e.column},
                                 {"difference", e.difference},
                                 {"n", e.dialogues},
                                 {"needed", number ? OrderedJson(*number) : OrderedJson(nullptr)}});
      if (!number) json["entries"].back()["otherwise"] = e.needed.otherwise;
    }
  }
  return out;
}

/// Row by row, the least and the most over its columns.
void print_power(const PlannedPower& power) {
  fmt::print(
      "  dialogues that tell a difference of {} points apart, with a probability of 80% (tests at "
      "5%)\n",
      power.points);
  bool any = false;
  for (const PlannedPower::OfTable& table : power.tables) {
    if (!table.title.empty()) fmt::print("    {}\n", one_line(table.title));
    for (std::size_t i = 0; i < table.entries.size();) {
      const std::vector<std::string>& row = table.entries[i].row;
      std::vector<int> numbers;
      std::set<std::string> otherwise;
      int stored = 0;
      for (; i < table.entries.size() && table.entries[i].row == row; ++i) {
        const NeededOfEntry& e = table.entries[i];
        stored = std::max(stored, e.dialogues);
        if (e.needed.number) {
          numbers.push_back(*e.needed.number);
        } else {
          otherwise.insert(e.needed.otherwise);
        }
      }
      any = true;
      std::vector<std::string> needed;
      if (!numbers.empty()) {
        const auto [least, most] = std::minmax_element(numbers.begin(), numbers.end());
        needed.push_back(*least == *most ? std::to_string(*most)
                                         : fmt::format("{} to {}", *least, *most));
      }
      needed.insert(needed.end(), otherwise.begin(), otherwise.end());
      fmt::print("      {}: {}, by {} that are stored\n", one_line(join(row, " / ")),
                 join(needed, "; "), stored);
    }
  }
  if (!any) fmt::print("      unknown: no differences are stored\n");
}

OrderedJson to_json(const std::string& experiment, const PlanCost& c, const PlannedMemory& memory) {
  return {{"experiment", experiment},
          {"cells", c.cells},
          {"units", c.units},
          {"shared_prefills", c.shared_prefills},
          {"unshared_prefills", c.cell_dialogues},
          {"prompt_tokens", c.prompt_tokens},
          {"unshared_prompt_tokens", c.unshared_prompt_tokens},
          {"max_new_tokens", c.max_new_tokens},
          {"longest_prompt", c.longest_prompt},
          {"memory", to_json(memory)},
          {"prefill_flop", c.flops},
          {"prefill_s_at_100_gflops", c.flops / 1e11}};
}

/// "176 MiB", or "176 to 190 MiB" where it depends on the answers.
std::string range(std::size_t least, std::size_t most) {
  const auto mebibytes = [](std::size_t bytes) { return static_cast<double>(bytes) / (1 << 20); };
  return least == most ? fmt::format("{:.0f} MiB", mebibytes(least))
                       : fmt::format("{:.0f} to {:.0f} MiB", mebibytes(least), mebibytes(most));
}

void print_plan(const std::string& experiment, const PlanCost& c, const PlannedMemory& memory) {
  fmt::print(
      "{}\n  cells            {}\n  work units       {}\n  prefills         {} shared, instead "
      "of {}\n"
      "  prompt tokens    {} computed, instead of {}\n  answer tokens    at most {}\n"
      "  longest prompt   {} tokens\n  prefill          {:.2f} TFLOP, about {:.0f} s at 100 "
      "GFLOP/s\n  memory           {}\n",
      experiment, c.cells, c.units, c.shared_prefills, c.cell_dialogues, c.prompt_tokens,
      c.unshared_prompt_tokens, c.max_new_tokens, c.longest_prompt, c.flops / 1e12, c.flops / 1e11,
      range(memory.total, memory.at_most));
  for (const PlannedMemory::OfModel& m : memory.models) {
    fmt::print("    {}: weights {}, each of {} workers {}\n", m.name,
               range(m.bytes.weights, m.bytes.weights), m.workers,
               range(m.bytes.worker.if_answers_agree, m.bytes.worker.if_answers_differ));
  }
}

}  // namespace

void add_plan_command(CLI::App& app, const CommonOptions& common) {
  struct Options {
    std::string manifest, db;
    double power = 0;
    ManifestOptions from;
  };
  auto o = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand(
      "plan", "What a manifest would run: cells, units, tokens, time, memory; runs nothing");
  command->footer(
      "Examples:\n  turnbench plan experiments/quickstart.json\n"
      "  turnbench plan experiments/quickstart.json --db pilot.db --power 2    # 2 of 100 points");
  command->add_option("manifest", o->manifest, "experiment file")->required();
  command->add_option("--db", o->db, "count only what this store lacks");
  const CLI::Option* power =
      command
          ->add_option(
              "--power", o->power,
              "with --db: how many dialogues tell a difference of so many points to a table's "
              "baseline apart, with a probability of 80%, if differences vary as the stored ones "
              "do")
          ->check(score_points());
  o->from.add_to(*command);
  command->callback([o, power, &common] {
    if (power->count() > 0 && (o->db.empty() || !path_exists(o->db))) {
      throw input_error("--power: found {}, expected a store with results, which say what varies",
                        o->db.empty() ? "no --db" : printable(o->db) + " not there");
    }
    const RunOptions run = o->from.sweep.run_options();
    const Manifest manifest = o->from.load(o->manifest);
    o->from.sweep.check_models({&manifest, 1});
    Plan plan = make_plan(resolve_experiment(manifest, o->from.sweep.locations(), o->from.limit));
    // A store that is not there yet is an empty one.
    if (!o->db.empty() && path_exists(o->db)) drop_stored_work(plan, Store::open(o->db));
    const PlanCost cost = estimate_cost(plan, run.devices);
    const PlannedMemory memory(plan, cost, run);
    const std::string& name = plan.experiment.manifest.name;
    std::optional<PlannedPower> planned;
    if (power->count() > 0) planned.emplace(Results(Store::open(o->db), name), o->power);
    if (common.json) {
      OrderedJson json = to_json(name, cost, memory);
      if (planned) json["dialogues_needed"] = to_json(*planned);
      fmt::print("{}\n", dump(json));
    } else {
      print_plan(name, cost, memory);
      if (planned) print_power(*planned);
    }
  });
}

}  // namespace turnbench
