// Work of a plan whose results are already stored.

#include <algorithm>
#include <set>

#include "common/file.h"
#include "datasets/dialogue_io.h"
#include "harness/experiment/plan.h"

namespace turnbench {
namespace {

/// Finds stored results of a plan's dialogues: in their own cells, or in cells that differ only in
/// the number of their dialogues.
class HeldResults {
 public:
  HeldResults(const Plan& plan, const Store& store) : store_(store) {
    for (const Cell& cell : plan.cells) cells_[cell.key] = &cell;
    for (const ResolvedDataset& dataset : plan.experiment.datasets) {
      auto& contents = contents_[dataset.hash];
      for (const Dialogue& d : dataset.dialogues) contents[d.id] = hash_text(to_json_line(d));
    }
  }

  /// True if the cell has the results.
  bool has(const std::string& cell, const Dialogue& dialogue) {
    const OfDialogues& held = of(cell).held;
    const auto found = held.find(dialogue.id);
    return found != held.end() && is_whole(found->second, dialogue) &&
           found->second.changed.empty();
  }

  /// True if no result remains to be computed.  Adds to `copies` if another cell has the results.
  bool has_or_copies(const std::string& cell, const Dialogue& dialogue) {
    if (has(cell, dialogue)) return true;
    OfCell& own = of(cell);
    if (!own.looked_for_others) own.others = others(cell);
    own.looked_for_others = true;
    for (const Other& other : own.others) {
      const auto there = other.held.find(dialogue.id);
      if (there == other.held.end() || !is_whole(there->second, dialogue)) continue;
      if (there->second.has_failed) continue;
      if (!there->second.changed.empty() || !other.same.contains(dialogue.id)) continue;
      copies.push_back({cell, other.cell, dialogue.id});
      return true;
    }
    return false;
  }

  std::vector<Store::ResultCopy> copies;

 private:
  using OfDialogues = std::map<std::string, Store::StoredResult>;
  struct Other {
    std::string cell;
    OfDialogues held;
    std::set<std::string> same;  ///< dialogues with equal content
  };
  struct OfCell {
    OfDialogues held;
    std::vector<Other> others;
    bool looked_for_others = false;
  };

  OfCell& of(const std::string& cell) {
    const auto [known, is_new] = cells_held_.try_emplace(cell);
    if (is_new) known->second = {store_.stored_results(cell), {}, false};
    return known->second;
  }

  static bool is_whole(const Store::StoredResult& held, const Dialogue& dialogue) {
    return held.turns == static_cast<int>(dialogue.turns.size());
  }

  std::vector<Other> others(const std::string& cell) {
    std::vector<Other> result;
    const Cell& own = *cells_.at(cell);
    for (const Cell& other : store_.cells_with_equal_results(own))
      result.push_back({other.key, store_.stored_results(other.key), same(own, other)});
    return result;
  }

  const std::set<std::string>& same(const Cell& own, const Cell& other) {
    const auto [known, is_new] = same_.try_emplace({own.dataset_hash, other.dataset_hash});
    if (is_new) {
      const auto& contents = contents_.at(own.dataset_hash);
      for (const auto& [id, content] : store_.content_hashes(other.dataset_hash)) {
        const auto found = contents.find(id);
        if (found != contents.end() && found->second == content) known->second.insert(id);
      }
    }
    return known->second;
  }

  const Store& store_;
  std::map<std::string, const Cell*> cells_;
  std::map<std::string, std::map<std::string, std::string>> contents_;  // dataset, id -> hash
  std::map<std::string, OfCell> cells_held_;
  std::map<std::pair<std::string, std::string>, std::set<std::string>> same_;  // by datasets
};

/// Drops the cells of units for which `is_done(cell, dialogue)`, and units without cells.  Cells of
/// probe units must be done for all dialogues, by `is_probed` if these are compared with each
/// other.
template <typename IsDone, typename IsProbed>
void drop_work(Plan& plan, const IsDone& is_done, const IsProbed& is_probed) {
  for (Unit& unit : plan.units) {
    std::erase_if(unit.cells,
                  [&](const UnitCell& cell) { return is_done(cell.key, *unit.dialogue); });
  }
  for (ProbeUnit& unit : plan.probe_units) {
    std::erase_if(unit.cells, [&](const ProbeCell& cell) {
      return std::all_of(unit.dialogues.begin(), unit.dialogues.end(),
                         [&](const Dialogue* dialogue) {
                           return unit.dialogues.size() > 1 ? is_probed(cell.key, *dialogue)
                                                            : is_done(cell.key, *dialogue);
                         });
    });
  }
  std::erase_if(plan.units, [](const Unit& unit) { return unit.cells.empty(); });
  std::erase_if(plan.probe_units, [](const ProbeUnit& unit) { return unit.cells.empty(); });
}

}  // namespace

std::vector<Store::ResultCopy> drop_stored_work(Plan& plan, const Store& store) {
  HeldResults held(plan, store);
  drop_work(
      plan,
      [&](const std::string& cell, const Dialogue& dialogue) {
        return held.has_or_copies(cell, dialogue);
      },
      [&](const std::string& cell, const Dialogue& dialogue) { return held.has(cell, dialogue); });
  return std::move(held.copies);
}

Work work_of(const Plan& plan) {
  Work out;
  for (const Unit& unit : plan.units) {
    for (const UnitCell& cell : unit.cells) out.emplace(cell.key, unit.dialogue->id);
  }
  for (const ProbeUnit& unit : plan.probe_units) {
    for (const ProbeCell& cell : unit.cells) {
      for (const Dialogue* dialogue : unit.dialogues) out.emplace(cell.key, dialogue->id);
    }
  }
  return out;
}

void keep_work(Plan& plan, const Work& work) {
  const auto is_other = [&](const std::string& cell, const Dialogue& dialogue) {
    return !work.contains({cell, dialogue.id});
  };
  drop_work(plan, is_other, is_other);
}

void drop_planned_work(Plan& plan, Work& planned) {
  const auto is_planned = [&](const std::string& cell, const Dialogue& dialogue) {
    return planned.contains({cell, dialogue.id});
  };
  drop_work(plan, is_planned, is_planned);
  planned.merge(work_of(plan));
}

}  // namespace turnbench
