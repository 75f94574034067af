#include "harness/experiment/plan.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "common/file.h"
#include "common/text.h"
#include "common/thread_pool.h"
#include "datasets/dialogue_io.h"
#include "harness/experiment/protocol.h"

namespace turnbench {
namespace {

using Dialogues = std::vector<const Dialogue*>;

/// The key of a unit.  `contents`: hashes of its dialogues.
template <typename AnyCell>
std::string key_of(const std::vector<AnyCell>& cells, std::vector<std::string> contents) {
  std::vector<std::string> keys;
  for (const AnyCell& cell : cells) keys.push_back(cell.key);
  std::sort(keys.begin(), keys.end());
  std::sort(contents.begin(), contents.end());
  return hash_text(join(keys, "\n") + "\n\n" + join(contents, "\n"));
}

/// Adds the cells and units of a plan, dataset by dataset.
class Planner {
 public:
  explicit Planner(Plan& plan) : plan_(plan), manifest_(plan.experiment.manifest) {}

  void add(std::size_t model, std::size_t dataset) {
    const ResolvedDataset& resolved = plan_.experiment.datasets[dataset];
    Cell cell = cell_of(plan_.experiment.models[model], resolved);
    for (Position position : resolved.positions) {
      cell.position = name_of(position);
      Dialogues dialogues;
      for (const Dialogue& dialogue : resolved.dialogues) {
        dialogues.push_back(&plan_.dialogues.emplace_back(with_questions_at(dialogue, position)));
        contents_[dialogues.back()] = content_of(dialogue);
      }
      add_units(model, dataset, cell, dialogues);
      add_probe_units(model, dataset, cell, dialogues);
    }
  }

 private:
  /// The hash of a dialogue of a dataset, which many units refer to.
  const std::string& content_of(const Dialogue& dialogue) {
    const auto [known, is_new] = contents_.try_emplace(&dialogue);
    if (is_new) known->second = hash_text(to_json_line(dialogue));
    return known->second;
  }

  /// The common fields of the cells of a model and a dataset.
  Cell cell_of(const ResolvedModel& model, const ResolvedDataset& dataset) const {
    Cell cell;
    cell.model = model.entry.name;
    cell.dataset = dataset.entry.label;
    cell.task = dataset.task;
    cell.metric = dataset.metric;
    cell.postprocess = dataset.postprocess;
    cell.model_hash = model.hash;
    cell.dataset_hash = dataset.hash;
    cell.protocol_text = protocol_card(plan_.experiment, model, dataset);
    cell.protocol = hash_text(cell.protocol_text);
    return cell;
  }

  /// Sets a cell's key and its place in the tables.  Returns false if an equal cell is planned
  /// already, as for another label of the same dialogues: it is computed once and shown twice.
  bool add_cell(Cell& cell) {
    cell.key = cell_key(cell);
    plan_.cells.push_back(cell);
    return planned_.insert(cell.key).second;
  }

  void add_units(std::size_t model, std::size_t dataset, Cell cell, const Dialogues& dialogues) {
    std::vector<UnitCell> cells;
    for (const Method& method : manifest_.methods) {
      for (History history : manifest_.histories) {
        for (Answers answers : manifest_.answers) {
          cell.method = method.label();
          cell.method_canonical = method.canonical();
          cell.history = name_of(history);
          cell.answers = name_of(answers);
          if (add_cell(cell)) cells.push_back({cell.key, &method, history, answers});
        }
      }
    }
    if (cells.empty()) return;
    for (const Dialogue* dialogue : dialogues) {
      plan_.units.push_back({dialogue, cells, model, dataset});
      plan_.units.back().key = key_of(cells, {contents_.at(dialogue)});
    }
  }

  /// Probes that look at single dialogues share one unit per dialogue; probes that compare
  /// dialogues share one unit for all.
  void add_probe_units(std::size_t model, std::size_t dataset, Cell cell,
                       const Dialogues& dialogues) {
    std::string ids;
    for (const Dialogue* dialogue : dialogues) ids += dialogue->id + "\n";
    cell.history = name_of(History::kReprefill);  // nothing is evicted
    cell.postprocess = "none";
    for (Answers answers : manifest_.answers) {
      std::vector<ProbeCell> single, comparing;
      cell.answers = name_of(answers);
      for (const ProbeSpec& probe : manifest_.probes) {
        cell.metric = probe.info().metric;
        cell.method = probe.label();
        cell.method_canonical = std::string(kProbePrefix) + probe.canonical();
        if (probe.info().compares_dialogues) {  // the number of dialogues changes the values
          cell.method_canonical +=
              fmt::format(" over {} dialogues {}", dialogues.size(), hash_text(ids).substr(0, 12));
        }
        if (!add_cell(cell)) continue;
        (probe.info().compares_dialogues ? comparing : single).push_back({cell.key, &probe});
      }
      if (!single.empty()) {
        for (const Dialogue* dialogue : dialogues)
          add_probe_unit({{dialogue}, single, answers, model, dataset});
      }
      if (!comparing.empty()) add_probe_unit({dialogues, comparing, answers, model, dataset});
    }
  }

  void add_probe_unit(ProbeUnit unit) {
    std::vector<std::string> contents;
    for (const Dialogue* dialogue : unit.dialogues) contents.push_back(contents_.at(dialogue));
    unit.key = key_of(unit.cells, std::move(contents));
    plan_.probe_units.push_back(std::move(unit));
  }

  Plan& plan_;
  const Manifest& manifest_;
  std::set<std::string> planned_;  // keys of cells
  // Hashes of dialogues, at any position: the position is part of the cells' keys.
  std::map<const Dialogue*, std::string> contents_;
};

}  // namespace

std::vector<const Unit*> Plan::units_of(std::size_t model) const {
  // Units with equal cells differ in their dialogues.
  std::map<std::string, std::vector<const Unit*>> by_cell;
  std::vector<const std::vector<const Unit*>*> groups;
  for (const Unit& unit : units) {
    if (unit.model != model) continue;
    std::vector<const Unit*>& group = by_cell[unit.cells.front().key];
    if (group.empty()) groups.push_back(&group);
    group.push_back(&unit);
  }
  std::vector<std::pair<double, const Unit*>> order;  // by the share of its group that is done
  for (const auto* group : groups) {
    for (std::size_t i = 0; i < group->size(); ++i)
      order.emplace_back(static_cast<double>(i) / static_cast<double>(group->size()), (*group)[i]);
  }
  std::stable_sort(order.begin(), order.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<const Unit*> out;
  for (const auto& [done, unit] : order) out.push_back(unit);
  return out;
}

std::vector<const ProbeUnit*> Plan::probe_units_of(std::size_t model) const {
  std::vector<const ProbeUnit*> out;
  for (const ProbeUnit& unit : probe_units) {
    if (unit.model == model) out.push_back(&unit);
  }
  return out;
}

Plan make_plan(Experiment experiment) {
  Plan plan;
  plan.experiment = std::move(experiment);
  Planner planner(plan);
  for (std::size_t model = 0; model < plan.experiment.models.size(); ++model) {
    for (std::size_t dataset = 0; dataset < plan.experiment.datasets.size(); ++dataset)
      planner.add(model, dataset);
  }
  return plan;
}

StoredExperiment stored_experiment(const Plan& plan, const std::vector<Device>& devices,
                                   int threads) {
  StoredExperiment out = stored_experiment(plan.experiment);
  out.cells = plan.cells;
  std::optional<int> of_isolated;
  if (plan.experiment.manifest.isolated)
    of_isolated = threads > 0 ? threads : available_processors();
  out.environment = environment_card(devices, of_isolated);
  return out;
}

}  // namespace turnbench
