#include "harness/store/cell_progress.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "common/json.h"

namespace turnbench {
namespace {

/// The number of dialogues in a protocol card's dataset; 0 if the card does not have it.
std::size_t dialogues_of(const std::string& card) {
  const Json json = Json::parse(card, nullptr, /*allow_exceptions=*/false);
  const Json::json_pointer place("/dataset/count");
  if (!json.is_object() || !json.contains(place)) return 0;
  return json.at(place).is_number_unsigned() ? json.at(place).get<std::size_t>() : 0;
}

}  // namespace

std::size_t planned_dialogues(const Cell& cell, std::size_t stored) {
  return std::max(stored, dialogues_of(cell.protocol_text));
}

std::map<std::string, CellProgress> cell_progress(const Store& store,
                                                  const std::string& experiment) {
  std::map<std::string, CellProgress> out;
  const auto stored = store.stored_turn_counts(experiment);
  std::set<std::pair<std::string, std::string>> failed;  // cell, dialogue
  for (const Store::Failure& f : store.failures(experiment)) failed.emplace(f.cell, f.dialogue);
  for (const Cell& cell : store.cells(experiment)) {
    const std::map<std::string, int> dialogues = store.turn_counts(cell.dataset_hash);
    CellProgress progress;
    progress.total = planned_dialogues(cell, dialogues.size());
    for (const auto& [id, turns] : dialogues) {
      const auto found = stored.find({cell.key, id});
      if (found == stored.end() || found->second < turns) continue;
      ++progress.run;
      progress.failed += failed.contains({cell.key, id});
    }
    out[cell.key] = progress;
  }
  return out;
}

}  // namespace turnbench
