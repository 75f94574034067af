#include "harness/store/shard_progress.h"

#include <map>
#include <set>
#include <utility>

namespace turnbench {

std::vector<ShardProgress> shard_progress(const Store& store, const std::string& experiment) {
  std::vector<ShardProgress> out;
  const std::vector<StoredShard> shards = store.shards(experiment);
  if (shards.empty()) return out;
  const auto stored = store.stored_turn_counts(experiment);
  std::set<std::pair<std::string, std::string>> failed;  // cell, dialogue
  for (const Store::Failure& f : store.failures(experiment)) failed.emplace(f.cell, f.dialogue);
  std::map<std::string, std::map<std::string, int>> turns;  // by dataset
  std::map<std::string, const std::map<std::string, int>*> turns_of_cell;
  for (const Cell& cell : store.cells(experiment)) {
    const auto [known, is_new] = turns.try_emplace(cell.dataset_hash);
    if (is_new) known->second = store.turn_counts(cell.dataset_hash);
    turns_of_cell[cell.key] = &known->second;
  }
  const auto is_stored = [&](const std::string& cell, const std::string& dialogue) {
    const auto found = stored.find({cell, dialogue});
    const auto of_cell = turns_of_cell.find(cell);
    if (found == stored.end() || of_cell == turns_of_cell.end()) return false;
    const auto expected = of_cell->second->find(dialogue);
    return expected != of_cell->second->end() && found->second >= expected->second;
  };
  for (const StoredShard& shard : shards) {
    ShardProgress progress{shard.shard, shard.units.size()};
    for (const StoredShard::Unit& unit : shard.units) {
      bool is_whole = true, has_failed = false;
      for (const std::string& cell : unit.cells) {
        for (const std::string& dialogue : unit.dialogues) {
          is_whole = is_whole && is_stored(cell, dialogue);
          has_failed = has_failed || failed.contains({cell, dialogue});
        }
      }
      ++(!is_whole ? progress.missing : has_failed ? progress.failed : progress.done);
    }
    out.push_back(progress);
  }
  return out;
}

std::vector<Store::Failure> failures_of(const Store& store, const std::string& experiment,
                                        const StoredShard& shard) {
  std::set<std::pair<std::string, std::string>> work;  // cell, dialogue
  for (const StoredShard::Unit& unit : shard.units) {
    for (const std::string& cell : unit.cells) {
      for (const std::string& dialogue : unit.dialogues) work.emplace(cell, dialogue);
    }
  }
  std::vector<Store::Failure> out = store.failures(experiment);
  std::erase_if(out, [&](const Store::Failure& f) { return !work.contains({f.cell, f.dialogue}); });
  return out;
}

}  // namespace turnbench
