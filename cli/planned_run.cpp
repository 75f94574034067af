#include "cli/planned_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "common/text.h"
#include "reports/escape.h"
#include "runners/progress.h"

namespace turnbench {
namespace {

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

OrderedJson to_json(const PlannedPower& power) {
  OrderedJson out = {{"points", power.points}, {"power", .8}, {"tables", OrderedJson::array()}};
  for (const PlannedPower::OfTable& table : power.tables) {
    OrderedJson& json = out["tables"].emplace_back(
        OrderedJson{{"title", table.title}, {"entries", OrderedJson::array()}});
    for (const NeededOfEntry& e : table.entries) {
      const std::optional<int>& number = e.needed.number;
      json["entries"].push_back({{"row", e.row},
                                 {"column", e.column},
                                 {"to", e.baseline},
                                 {"difference", e.difference},
                                 {"n", e.dialogues},
                                 {"needed", number ? OrderedJson(*number) : OrderedJson(nullptr)}});
      if (!number) json["entries"].back()["otherwise"] = e.needed.otherwise;
    }
  }
  return out;
}

/// "6", or "4 to 6" of several numbers; "" of none.
std::string range(const std::vector<int>& numbers) {
  if (numbers.empty()) return "";
  const auto [least, most] = std::minmax_element(numbers.begin(), numbers.end());
  return *least == *most ? std::to_string(*most) : fmt::format("{} to {}", *least, *most);
}

/// Prints the minimum and the maximum over the columns of each row.
void print_power(const PlannedPower& power) {
  fmt::print(
      "  dialogues that detect a difference of {} points with a probability of 80% (tests at 5%)\n",
      power.points);
  bool any = false;
  for (const PlannedPower::OfTable& table : power.tables) {
    if (!table.title.empty()) {
      fmt::print("    {}\n", one_line(table.title));
    } else if (power.tables.size() > 1) {
      fmt::print("    table {}\n", table.number);
    }
    for (std::size_t i = 0; i < table.entries.size();) {
      const std::vector<std::string>& row = table.entries[i].row;
      std::vector<int> numbers, stored;
      std::set<std::string> otherwise;
      for (; i < table.entries.size() && table.entries[i].row == row; ++i) {
        const NeededOfEntry& e = table.entries[i];
        stored.push_back(e.dialogues);
        if (e.needed.number) {
          numbers.push_back(*e.needed.number);
        } else {
          otherwise.insert(e.needed.otherwise);
        }
      }
      any = true;
      std::vector<std::string> needed;
      if (!numbers.empty()) needed.push_back(range(numbers));
      needed.insert(needed.end(), otherwise.begin(), otherwise.end());
      fmt::print("      {}: {}, from {} stored ones\n", one_line(join(row, " / ")),
                 join(needed, "; "), range(stored));
    }
  }
  if (!any) fmt::print("      unknown: no differences are stored\n");
}

/// The basis of the time estimate, and its limits.
std::string basis_of(const PlannedRun& run) {
  const PlannedTime& t = run.time;
  const std::size_t all = t.timed + t.like_others + t.by_peak;
  std::vector<std::string> from, only;
  if (run.stored > 0) from.push_back(fmt::format("{} stored dialogues", run.stored));
  if (run.piloted > 0) from.push_back(fmt::format("{} units run now", run.piloted));
  if (t.like_others > 0 && from.empty()) from.emplace_back("full attention on a short prompt");
  if (t.like_others > 0) {
    only.push_back(
        fmt::format("{} of {} dialogues as if their methods took as long as the timed ones",
                    t.like_others, all));
  }
  if (t.by_peak > 0) {
    only.push_back(
        fmt::format("{} of {} at half of this machine's peak, without the methods' own "
                    "computations and with answers of maximum length",
                    t.by_peak, all));
  }
  std::string out = from.empty() ? "" : "from the times of " + join(from, " and ");
  if (!only.empty()) out += (out.empty() ? "" : "; ") + join(only, "; ");
  return out;
}

/// "176 MiB", or "176 to 190 MiB" if it depends on the answers.
std::string range(std::size_t least, std::size_t most) {
  const auto mebibytes = [](std::size_t bytes) { return static_cast<double>(bytes) / (1 << 20); };
  return least == most ? fmt::format("{:.0f} MiB", mebibytes(least))
                       : fmt::format("{:.0f} to {:.0f} MiB", mebibytes(least), mebibytes(most));
}

}  // namespace

PlannedMemory::PlannedMemory(const Plan& plan, const PlanCost& cost, std::span<const int> workers,
                             std::size_t of_process, std::size_t limit_of_worker)
    : process(of_process), limit(limit_of_worker), total(of_process), at_most(of_process) {
  for (std::size_t m = 0; m < plan.experiment.models.size(); ++m) {
    const PlanCost::Memory& bytes = cost.memory[m];
    const auto count = static_cast<std::size_t>(workers[m]);
    if (count == 0) continue;  // no work remains
    models.push_back({plan.experiment.models[m].entry.name, bytes, workers[m]});
    total = std::max(total, process + bytes.weights + count * bytes.worker.if_answers_agree);
    at_most = std::max(at_most, process + bytes.weights + count * bytes.worker.if_answers_differ);
  }
}

PlannedPower::PlannedPower(const Results& results, double of_points) : points(of_points) {
  std::size_t number = 0;
  for (const TableSpec& spec : results.tables()) {
    ++number;
    const bool of_scores = std::all_of(spec.values.begin(), spec.values.end(), shows_scores);
    if (spec.difference_to.empty() || !of_scores) continue;
    tables.push_back({number, spec.title, needed_dialogues(results, spec, points)});
  }
}

PlannedRun& PlannedRun::operator+=(const PlannedRun& next) {
  name += (name.empty() ? "" : ", ") + next.name;
  cost.cells += next.cost.cells;
  cost.units += next.cost.units;
  cost.shared_prefills += next.cost.shared_prefills;
  cost.unshared_prefills += next.cost.unshared_prefills;
  cost.prompt_tokens += next.cost.prompt_tokens;
  cost.unshared_prompt_tokens += next.cost.unshared_prompt_tokens;
  cost.max_new_tokens += next.cost.max_new_tokens;
  cost.longest_prompt = std::max(cost.longest_prompt, next.cost.longest_prompt);
  cost.omits_answers |= next.cost.omits_answers;
  cost.flops += next.cost.flops;
  cost.refused_units += next.cost.refused_units;
  cost.expects_equal_answers |= next.cost.expects_equal_answers;
  if (cost.refusal.empty()) cost.refusal = next.cost.refusal;
  memory.process = std::max(memory.process, next.memory.process);
  memory.limit = next.memory.limit;
  memory.total = std::max(memory.total, next.memory.total);
  memory.at_most = std::max(memory.at_most, next.memory.at_most);
  memory.models.insert(memory.models.end(), next.memory.models.begin(), next.memory.models.end());
  time += next.time;
  stored += next.stored;
  piloted += next.piloted;
  if (next.power) power = next.power;
  return *this;
}

OrderedJson to_json(const PlannedRun& run) {
  const PlanCost& c = run.cost;
  OrderedJson out = {{"experiment", run.name},
                     {"cells", c.cells},
                     {"units", c.units},
                     {"shared_prefills", c.shared_prefills},
                     {"unshared_prefills", c.unshared_prefills},
                     {"prompt_tokens", c.prompt_tokens},
                     {"unshared_prompt_tokens", c.unshared_prompt_tokens},
                     {"max_new_tokens", c.max_new_tokens},
                     {"refused_units", c.refused_units},
                     {"expects_equal_answers", c.expects_equal_answers},
                     {"longest_prompt", c.longest_prompt},
                     {"memory", to_json(run.memory)},
                     {"prefill_flop", c.flops},
                     {"prefill_s_at_100_gflops", c.flops / 1e11},
                     {"time",
                      {{"seconds", run.time.seconds},
                       {"dialogues_as_timed", run.time.timed},
                       {"dialogues_as_other_methods", run.time.like_others},
                       {"dialogues_by_peak", run.time.by_peak},
                       {"stored_dialogues", run.stored},
                       {"units_run", run.piloted}}}};
  if (run.power) out["dialogues_needed"] = to_json(*run.power);
  return out;
}

void print(const PlannedRun& run) {
  const PlanCost& c = run.cost;
  fmt::print(
      "{}\n  cells            {}\n  work units       {}\n  prefills         {} shared, instead "
      "of {}\n"
      "  prompt tokens    {} computed, instead of {}\n  answer tokens    at most {}\n"
      "  longest prompt   {} tokens{}\n  prefill          {:.2f} TFLOP, about {:.0f} s at 100 "
      "GFLOP/s\n  time             about {}\n",
      run.name, c.cells, c.units, c.shared_prefills, c.unshared_prefills, c.prompt_tokens,
      c.unshared_prompt_tokens, c.max_new_tokens, c.longest_prompt,
      c.omits_answers ? ", without the methods' earlier answers" : "", c.flops / 1e12,
      c.flops / 1e11, duration(run.time.seconds));
  if (const std::string basis = basis_of(run); !basis.empty()) fmt::print("    {}\n", basis);
  if (c.expects_equal_answers)
    fmt::print("  if methods give other answers, they share fewer prefills in later turns\n");
  if (c.refused_units > 0) {
    fmt::print("  will fail        {} of {} units, the first because: {}\n", c.refused_units,
               c.units, c.refusal);
  }
  const PlannedMemory& memory = run.memory;
  fmt::print("  memory           {}{}\n", range(memory.total, memory.at_most),
             memory.total == memory.at_most
                 ? ""
                 : ": the maximum if all answers differ and reach their length limits");
  fmt::print("    program without models {}\n", range(memory.process, memory.process));
  for (const PlannedMemory::OfModel& m : memory.models) {
    fmt::print("    {}: weights {}, each of {} workers {}\n", m.name,
               range(m.bytes.weights, m.bytes.weights), m.workers,
               range(m.bytes.worker.if_answers_agree, m.bytes.worker.if_answers_differ));
    if (m.may_exceed(memory.limit)) {
      fmt::print("      may exceed --memory-limit: dialogues that need more than {} MiB fail\n",
                 memory.limit >> 20);
    }
  }
  if (run.power) print_power(*run.power);
}

}  // namespace turnbench
