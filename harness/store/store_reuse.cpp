// Stored results that a run need not compute, and those among them that other sources computed.

#include <algorithm>
#include <set>

#include "common/error.h"
#include "harness/store/schema.h"
#include "harness/store/store.h"

namespace turnbench {

Cell read_cell(const Statement& row, int first) {
  Cell out;
  for (std::string* field : {&out.key, &out.task, &out.position, &out.history, &out.answers,
                             &out.metric, &out.postprocess, &out.model_hash, &out.dataset_hash,
                             &out.method_canonical, &out.protocol, &out.protocol_text})
    *field = row.text(first++);
  return out;
}

const SourceHashes& Store::sources_in(const std::string& environment) const {
  const auto [known, is_new] = known_sources_.try_emplace(environment);
  if (is_new) {
    Statement s = db_->prepare("SELECT json FROM environment WHERE id = ?");
    s << environment;
    if (s.next()) known->second = sources_of(s.text(0));
  }
  return known->second;
}

std::map<std::string, Store::StoredResult> Store::stored_results(const std::string& cell,
                                                                 const SourceHashes& now) const {
  std::map<std::string, StoredResult> out;
  std::map<std::string, std::vector<std::string>> changed;  // by environment
  Statement s = db_->prepare(
      "SELECT r.dialogue, r.environment, c.method, count(*) FROM record r "
      "JOIN cell c ON c.key = r.cell WHERE r.cell = ? GROUP BY r.dialogue, r.environment");
  s << cell;
  while (s.next()) {
    StoredResult& held = out[s.text(0)];
    held.turns += static_cast<int>(s.integer(3));
    const auto [of, is_new] = changed.try_emplace(s.text(1));
    if (is_new) of->second = changed_parts(s.text(2), sources_in(s.text(1)), now);
    for (const std::string& part : of->second) {
      if (std::find(held.changed.begin(), held.changed.end(), part) == held.changed.end())
        held.changed.push_back(part);
    }
  }
  return out;
}

std::vector<Cell> Store::cells_with_equal_results(const Cell& cell) const {
  // A protocol card contains names and number of its dialogues.
  constexpr const char* kAnyDialogues = "json_remove({}, '$.dataset.dialogues', '$.dataset.count')";
  Statement s = db_->prepare(fmt::format(
      "SELECT {} FROM cell c JOIN protocol p ON p.id = c.protocol WHERE c.dataset <> ? AND "
      "c.model = ? AND c.position = ? AND c.method = ? AND c.history = ? AND c.answers = ? AND "
      "c.metric = ? AND c.postprocess = ? AND {} = {} ORDER BY c.key",
      kCellColumnsSql, fmt::format(kAnyDialogues, "p.json"), fmt::format(kAnyDialogues, "?")));
  s << cell.dataset_hash << cell.model_hash << cell.position << cell.method_canonical
    << cell.history << cell.answers << cell.metric << cell.postprocess << cell.protocol_text;
  std::vector<Cell> out;
  while (s.next()) out.push_back(read_cell(s, 0));
  return out;
}

void Store::copy_results(const std::vector<ResultCopy>& copies) {
  Transaction transaction(*db_);
  Statement forget = db_->prepare("DELETE FROM record WHERE cell = ? AND dialogue = ?");
  for (const ResultCopy& a : copies) (forget << a.cell << a.dialogue).run();
  for (const char* table : {"record", "score", "counter", "timing", "ledger", "judgement"}) {
    std::string columns;  // all columns except the cell
    Statement info = db_->prepare(fmt::format("PRAGMA table_info({})", table));
    while (info.next()) {
      if (info.text(1) != "cell") columns += ", " + info.text(1);
    }
    Statement copy = db_->prepare(fmt::format(
        "INSERT INTO {0} (cell{1}) SELECT ?{1} FROM {0} WHERE cell = ? AND dialogue = ?", table,
        columns));
    for (const ResultCopy& a : copies) (copy << a.cell << a.from << a.dialogue).run();
  }
  transaction.commit();
}

std::string Store::dataset_sources(const std::string& dataset_hash) const {
  if (!has_sources(*db_)) return "";
  Statement s = db_->prepare("SELECT sources FROM dataset WHERE hash = ?");
  s << dataset_hash;
  return s.next() ? s.text(0) : "";
}

bool Store::has_changed_results(const Cell& cell, const SourceHashes& now) const {
  const auto any_changed = [&](Statement& environments) {
    while (environments.next()) {
      const SourceHashes& then = sources_in(environments.text(0));
      if (!changed_parts(cell.method_canonical, then, now).empty()) return true;
    }
    return false;
  };
  // The cell's records are read only if the store has records of other sources.
  Statement all = db_->prepare("SELECT id FROM environment");
  if (!any_changed(all)) return false;
  Statement own = db_->prepare("SELECT DISTINCT environment FROM record WHERE cell = ?");
  own << cell.key;
  return any_changed(own);
}

std::map<std::string, std::size_t> Store::dialogues_scored_by_others(
    const std::string& experiment, const std::string& sources) const {
  std::map<std::string, std::size_t> out;
  Statement s = db_->prepare(fmt::format(
      "SELECT s.cell, count(DISTINCT s.dialogue) FROM {} e JOIN cell c ON c.key = e.cell "
      "JOIN score s ON s.cell = c.key AND s.metric = c.metric AND s.postprocess = c.postprocess "
      "WHERE {} <> ?2 GROUP BY 1",
      kCellsSql, has_sources(*db_) ? "s.sources" : "''"));
  s << experiment << sources;
  while (s.next()) out[s.text(0)] = static_cast<std::size_t>(s.integer(1));
  return out;
}

std::map<std::string, std::string> Store::dialogue_texts(const std::string& dataset_hash) const {
  std::map<std::string, std::string> out;
  Statement s = db_->prepare("SELECT id, json FROM dialogue WHERE dataset = ?");
  s << dataset_hash;
  while (s.next()) out[s.text(0)] = s.text(1);
  return out;
}

}  // namespace turnbench
