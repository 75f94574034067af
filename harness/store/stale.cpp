#include "harness/store/stale.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "common/text.h"
#include "harness/store/cell.h"

namespace turnbench {

std::vector<StaleCell> stale_cells(const Store& store, const std::string& experiment,
                                   const SourceHashes& now) {
  std::vector<StaleCell> out;
  const auto hash = [&](const char* part) {
    const auto found = now.find(part);
    return found == now.end() ? std::string() : found->second;
  };
  const auto scored = store.scores_of_others(experiment, hash("metrics")).dialogues;
  std::map<std::string, bool> built;  // by dataset: whether the current sources built its dialogues
  std::set<std::string> seen;
  for (const Cell& cell : store.cells(experiment)) {
    if (!seen.insert(cell.key).second) continue;
    StaleCell stale{cell, 0, {}};
    const auto [known, is_new] = built.try_emplace(cell.dataset_hash);
    if (is_new) known->second = store.dataset_sources(cell.dataset_hash) == hash("datasets");
    // Checks single dialogues only if the cell may be stale, which is rare.
    const bool suspect = !known->second || store.has_changed_results(cell, now);
    const auto held = suspect ? store.stored_results(cell.key, now)
                              : std::map<std::string, Store::StoredResult>();
    for (const auto& [dialogue, part] : held) {
      if (part.changed.empty()) continue;
      ++stale.dialogues;
      stale.changed.insert(part.changed.begin(), part.changed.end());
    }
    const auto scores = scored.find(cell.key);
    if (scores != scored.end() && !is_probe(cell)) {
      stale.changed.insert("metrics");
      stale.dialogues = std::max(stale.dialogues, scores->second);
    }
    if (!known->second && !held.empty()) {
      stale.changed.insert("datasets");
      stale.dialogues = held.size();
    }
    if (stale.dialogues > 0) out.push_back(std::move(stale));
  }
  return out;
}

std::string describe(const std::vector<StaleCell>& stale) {
  if (stale.empty()) return "";
  std::size_t dialogues = 0;
  std::map<std::string, std::set<std::string>> methods;  // by what changed
  for (const StaleCell& s : stale) {
    dialogues += s.dialogues;
    methods[join(std::vector<std::string>(s.changed.begin(), s.changed.end()), ", ")].insert(
        s.cell.method);
  }
  std::vector<std::string> reasons;
  for (const auto& [changed, of] : methods) {
    constexpr std::size_t kNamed = 4;
    std::vector<std::string> names(of.begin(), of.end());
    if (names.size() > kNamed) {
      const std::size_t more = names.size() - kNamed;
      names.resize(kNamed);
      names.push_back(fmt::format("{} more", more));
    }
    reasons.push_back(fmt::format("{} changed since ({})", changed, join(names, ", ")));
  }
  return fmt::format("{} results of dialogues in {} cells are of other sources: {}", dialogues,
                     stale.size(), join(reasons, "; "));
}

}  // namespace turnbench
