// Stored results that a run need not compute, and those among them that other sources computed.

#include <algorithm>
#include <array>
#include <set>

#include "common/error.h"
#include "harness/store/packed_text.h"
#include "harness/store/record_keys.h"
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
  Statement method = db_->prepare("SELECT method FROM cell WHERE key = ?");
  method << cell;
  if (!method.next()) return out;
  const std::string canonical = method.text(0);
  std::map<std::string, std::vector<std::string>, std::less<>> changed;  // by environment
  const StoredTexts environments = StoredTexts::environments(*db_);
  Statement s = db_->prepare(cell_rows_sql(*db_, "record", "x.environment"));
  s << cell;
  auto held = out.end();
  while (s.next()) {
    if (held == out.end() || held->first != s.view(0)) held = out.try_emplace(s.text(0)).first;
    ++held->second.turns;
    const std::string_view environment = environments.of(s, 2);
    auto of = changed.find(environment);
    if (of == changed.end()) {
      const std::string id(environment);
      of = changed.try_emplace(id, changed_parts(canonical, sources_in(id), now)).first;
    }
    for (const std::string& part : of->second) {
      std::vector<std::string>& parts = held->second.changed;
      if (std::find(parts.begin(), parts.end(), part) == parts.end()) parts.push_back(part);
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
  RecordKeys keys(*db_);
  std::vector<std::pair<RecordIds, RecordIds>> units;  // from, to
  RecordRemover replaced(*db_);
  for (const ResultCopy& a : copies) {
    for (const std::string* cell : {&a.from, &a.cell}) keys.record(*cell, a.dialogue, 0);  // known
    units.emplace_back(keys.unit(a.from, a.dialogue), keys.unit(a.cell, a.dialogue));
    replaced.remove(units.back().second);
  }
  for (const char* table : {"record", "score", "counter", "timing", "ledger", "judgement"}) {
    std::string id, others;  // columns; the first one is the record's id
    Statement info = db_->prepare(fmt::format("PRAGMA table_info({}_data)", table));
    while (info.next()) {
      if (id.empty()) {
        id = info.text(1);
      } else {
        others += ", " + info.text(1);
      }
    }
    Statement copy = db_->prepare(
        fmt::format("INSERT INTO {0}_data ({1}{2}) SELECT {1} + ?{2} FROM {0}_data WHERE {1} "
                    "BETWEEN ? AND ?",
                    table, id, others));
    for (const auto& [from, to] : units)
      (copy << to.first - from.first << from.first << from.last).run();
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
  if (has_compact_tables(*db_)) {  // the scores are read only if some may be of other sources
    Statement any = db_->prepare("SELECT 1 FROM source WHERE hash <> ?");
    any << sources;
    if (!any.next()) return out;
  }
  std::vector<std::array<std::string, 3>> cells;  // key, metric, postprocess
  Statement all = db_->prepare(fmt::format(
      "SELECT c.key, c.metric, c.postprocess FROM {} e JOIN cell c ON c.key = e.cell", kCellsSql));
  all << experiment;
  while (all.next()) cells.push_back({all.text(0), all.text(1), all.text(2)});
  const std::string others =
      has_sources(*db_) ? "x.sources IS NOT " + source_sql(*db_, "?4") : std::string("'' <> ?4");
  Statement s =
      db_->prepare(cell_rows_sql(*db_, "score", "x.value",
                                 fmt::format("x.metric = {} AND x.postprocess = {} AND {}",
                                             name_sql(*db_, "?2"), name_sql(*db_, "?3"), others)));
  for (const auto& [cell, metric, postprocess] : cells) {
    s << cell << metric << postprocess << sources;
    std::string dialogue;
    for (bool first = true; s.next(); first = false) {
      if (!first && s.view(0) == dialogue) continue;
      dialogue = s.text(0);
      ++out[cell];
    }
    s.reset();
  }
  return out;
}

std::map<std::string, std::string> Store::dialogue_texts(const std::string& dataset_hash) const {
  std::map<std::string, std::string> out;
  Statement s = db_->prepare("SELECT id, json FROM dialogue WHERE dataset = ?");
  s << dataset_hash;
  while (s.next()) out[s.text(0)] = unpacked_text(s, 1);
  return out;
}

}  // namespace turnbench
