// A plan as data: the format is described in docs/manifest.md.

#include "harness/experiment/plan_lines.h"

#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "common/json.h"
#include "harness/experiment/plan_memory.h"
#include "harness/experiment/shards.h"
#include "harness/store/provenance.h"

namespace turnbench {
namespace {

class PlanLines {
 public:
  PlanLines(const Plan& plan, const Work& missing, PlannedLengths& lengths,
            std::span<const Device> devices)
      : plan_(plan),
        missing_(missing),
        lengths_(lengths),
        devices_(devices),
        sources_(sources_of(environment_card({devices.begin(), devices.end()}))) {
    for (const Cell& cell : plan.cells) cells_[cell.key] = &cell;
  }

  /// Adds the line of a unit.  `seconds`: nullopt if unknown.
  template <typename AnyUnit>
  void add(const AnyUnit& unit, const std::vector<const Dialogue*>& dialogues,
           std::optional<double> seconds) {
    const ResolvedModel& model = plan_.experiment.models[unit.model];
    OrderedJson ids = OrderedJson::array(), cells = OrderedJson::array();
    for (const Dialogue* dialogue : dialogues) ids.push_back(dialogue->id);
    std::map<std::string, std::string> sources;
    bool stored = true;
    for (const auto& planned : unit.cells) {
      const Cell& cell = *cells_.at(planned.key);
      cells.push_back({{"key", cell.key},
                       {"method", cell.method},
                       {"history", cell.history},
                       {"answers", cell.answers}});
      add_sources(cell, sources);
      for (const Dialogue* dialogue : dialogues)
        stored = stored && !missing_.contains({cell.key, dialogue->id});
    }
    const std::size_t weights =
        static_cast<std::size_t>(model.checkpoint.config.parameter_count(devices_.size())) *
        size_of(model.dtype);
    const OrderedJson line = {
        {"key", unit.key},
        {"experiment", plan_.experiment.manifest.name},
        {"model", model.entry.name},
        {"dataset", plan_.experiment.datasets[unit.dataset].entry.label},
        {"dialogues", std::move(ids)},
        {"position", cells_.at(unit.cells.front().key)->position},
        {"cells", std::move(cells)},
        {"sources", sources},
        {"seconds", seconds ? OrderedJson(*seconds) : OrderedJson(nullptr)},
        {"operations", 1e6 * static_cast<double>(relative_cost(plan_, unit, lengths_))},
        {"memory_bytes", weights + unit_bytes(plan_, unit, devices_, lengths_).if_answers_differ},
        {"stored", stored}};
    text_ += line.dump(-1, ' ', false, OrderedJson::error_handler_t::replace) + "\n";
  }

  std::string text() && { return std::move(text_); }

 private:
  /// Adds the hashes of the sources that determine a cell's results.
  void add_sources(const Cell& cell, std::map<std::string, std::string>& out) const {
    std::vector<std::string> parts = deciding_parts(cell.method_canonical);
    parts.emplace_back("cuda");
    for (const std::string& part : parts) {
      const auto found = sources_.find(part);
      if (found != sources_.end()) out.insert(*found);
    }
  }

  const Plan& plan_;
  const Work& missing_;
  PlannedLengths& lengths_;
  std::span<const Device> devices_;
  const SourceHashes sources_;
  std::map<std::string, const Cell*> cells_;
  std::string text_;
};

}  // namespace

std::string plan_lines(const Plan& plan, const Work& missing, const Speeds& speeds,
                       PlannedLengths& lengths, std::span<const Device> devices) {
  const UnitTimes times = estimate_unit_times(plan, speeds, lengths);
  PlanLines lines(plan, missing, lengths, devices);
  for (std::size_t i = 0; i < plan.units.size(); ++i)
    lines.add(plan.units[i], {plan.units[i].dialogue}, times.units[i]);
  for (std::size_t i = 0; i < plan.probe_units.size(); ++i)
    lines.add(plan.probe_units[i], plan.probe_units[i].dialogues, times.probe_units[i]);
  return std::move(lines).text();
}

}  // namespace turnbench
