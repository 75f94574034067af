#include "harness/store/merge_sources.h"

#include "common/error.h"
#include "common/text.h"
#include "harness/store/provenance.h"
#include "harness/store/record_keys.h"
#include "harness/store/schema.h"

namespace turnbench {

MergedSources::Parts MergedSources::parts_of(const Database& store) {
  Parts out;
  std::map<std::string, SourceHashes> environments;
  Statement cards = store.prepare("SELECT id, json FROM environment");
  while (cards.next()) environments[cards.text(0)] = sources_of(cards.view(1));
  const StoredTexts environment_of = StoredTexts::environments(store);
  Statement cells = store.prepare("SELECT key, method FROM cell");
  Statement computed =
      store.prepare(fmt::format("SELECT DISTINCT environment FROM ({})",
                                cell_rows_sql(store, "record", "x.environment AS environment")));
  while (cells.next()) {
    std::vector<std::string> parts = deciding_parts(cells.text(1));
    if (parts.empty()) continue;  // imported
    parts.emplace_back("cuda");
    computed << cells.view(0);
    while (computed.next()) {
      const SourceHashes& sources = environments[std::string(environment_of.of(computed, 0))];
      for (const std::string& part : parts) {
        const auto found = sources.find(part);
        out[part].insert(found == sources.end() ? "" : found->second);
      }
    }
    computed.reset();
  }
  if (!has_sources(store)) {
    Statement any = store.prepare("SELECT 1 FROM score LIMIT 1");
    if (any.next()) out["metrics"].insert("");
    return out;
  }
  Statement scores =
      store.prepare(has_compact_tables(store)
                        ? "SELECT hash FROM source WHERE id IN (SELECT sources FROM score_data)"
                        : "SELECT DISTINCT sources FROM score");
  while (scores.next()) out["metrics"].insert(scores.text(0));
  Statement datasets = store.prepare(
      "SELECT DISTINCT d.sources FROM dataset d JOIN cell c ON c.dataset = d.hash "
      "WHERE EXISTS (SELECT 1 FROM record r WHERE r.cell = c.key)");
  while (datasets.next()) out["datasets"].insert(datasets.text(0));
  return out;
}

void MergedSources::add(const Database& store) {
  Parts own = parts_of(store);
  for (const auto& [path, parts] : stores_) {
    std::vector<std::string> differing;
    for (const auto& [part, hashes] : own) {
      const auto other = parts.find(part);
      if (other != parts.end() && other->second != hashes) differing.push_back(part);
    }
    if (differing.empty()) continue;
    throw runtime_error(
        "{}: found results of other sources than those of {} ({}), expected the same: run one of "
        "them again with the other's program",
        store.path(), path, join(differing, ", "));
  }
  stores_.emplace_back(store.path(), std::move(own));
}

}  // namespace turnbench
