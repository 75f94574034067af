#include "harness/store/record_keys.h"
#include "harness/store/schema.h"
#include "harness/store/store.h"

namespace turnbench {

std::vector<Store::CellUse> Store::cell_uses() const {
  Statement s = db_->prepare(
      "SELECT ifnull(e.experiment, ''), ifnull(e.method, c.method), c.key, c.method "
      "FROM cell c LEFT JOIN experiment_cell e ON e.cell = c.key "
      "GROUP BY 1, 2, 3 ORDER BY 1, min(e.ordinal), 2, 3");
  std::vector<CellUse> out;
  while (s.next()) {
    CellUse& use = out.emplace_back();
    use.experiment = s.text(0);
    use.cell.method = s.text(1);
    use.cell.key = s.text(2);
    use.cell.method_canonical = s.text(3);
  }
  return out;
}

Store::RowCounts Store::row_counts(const std::string& cell) const {
  const auto count = [&](const char* table) {
    Statement s = db_->prepare(fmt::format("SELECT count(*) FROM {} WHERE cell = ?", table));
    s << cell;
    return s.next() ? static_cast<std::size_t>(s.integer(0)) : 0;
  };
  return {count("record"), count("score"), has_judgements(*db_) ? count("judgement") : 0};
}

void Store::forget(const std::vector<std::string>& cells, const std::string& experiment) {
  Transaction transaction(*db_);
  RecordKeys keys(*db_);
  RecordRemover records(*db_);
  // Imported cells are in no manifest: without their records they would be pending for ever.
  Statement imported = db_->prepare("DELETE FROM experiment_cell WHERE cell = ? AND ordinal >= ?");
  for (const std::string& cell : cells) {
    records.remove(keys.cell(cell));
    (imported << cell << kFirstImportedOrdinal).run();
  }
  for (const char* table : {"experiment_cell WHERE experiment", "experiment WHERE name"}) {
    if (!experiment.empty())
      (db_->prepare(fmt::format("DELETE FROM {} = ?", table)) << experiment).run();
  }
  // Deletes all rows that are no longer referenced, except environments: another process may be
  // about to store a record that refers to one.
  db_->execute(fmt::format(
      "DELETE FROM cell WHERE key NOT IN (SELECT cell FROM experiment_cell) AND NOT EXISTS (SELECT "
      "1 FROM record_data WHERE id BETWEEN cell.id << {0} AND (cell.id << {0}) + {1})",
      kDialogueBits + kTurnBits, kMostDialogues * kMostTurns - 1));
  for (const char* orphans :
       {"dialogue WHERE dataset NOT IN (SELECT dataset FROM cell)",
        "dataset WHERE hash NOT IN (SELECT dataset FROM cell)",
        "model WHERE hash NOT IN (SELECT model FROM cell)",
        "method WHERE canonical NOT IN (SELECT method FROM cell)",
        "protocol WHERE id NOT IN (SELECT protocol FROM cell)",
        "name WHERE id NOT IN (SELECT name FROM counter_data UNION SELECT name FROM timing_data "
        "UNION SELECT metric FROM score_data UNION SELECT postprocess FROM score_data)",
        "source WHERE id NOT IN (SELECT sources FROM score_data)"})
    db_->execute(std::string("DELETE FROM ") + orphans);
  transaction.commit();
}

std::pair<std::uintmax_t, std::uintmax_t> Store::shrink() {
  const auto merged_size = [&] {
    db_->execute("PRAGMA wal_checkpoint(TRUNCATE)");
    return std::filesystem::file_size(path());
  };
  const std::uintmax_t before = merged_size();
  db_->execute("VACUUM");
  return {before, merged_size()};
}

}  // namespace turnbench
