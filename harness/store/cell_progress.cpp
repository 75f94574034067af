#include "harness/store/cell_progress.h"

#include <algorithm>
#include <nlohmann/json.hpp>

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
  const std::map<std::string, CellSummary> summaries = store.summaries(experiment);
  const std::map<std::string, std::size_t> dialogues = store.dialogue_counts();
  for (const Cell& cell : store.cells(experiment)) {
    const CellSummary& summary = summaries.at(cell.key);
    const auto count = dialogues.find(cell.dataset_hash);
    out[cell.key] = {summary.whole, summary.failed,
                     planned_dialogues(cell, count == dialogues.end() ? 0 : count->second)};
  }
  return out;
}

}  // namespace turnbench
