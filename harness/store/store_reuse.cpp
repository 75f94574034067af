// Stored results that a run need not compute, and those among them that other sources computed.

#include <algorithm>
#include <set>

#include "common/error.h"
#include "harness/store/packed_text.h"
#include "harness/store/record_keys.h"
#include "harness/store/schema.h"
#include "harness/store/store.h"
#include "metrics/metric.h"

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
  Statement s = db_->prepare(cell_rows_sql(*db_, "record", "x.environment, x.status"));
  s << cell;
  auto held = out.end();
  while (s.next()) {
    if (held == out.end() || held->first != s.view(0)) held = out.try_emplace(s.text(0)).first;
    ++held->second.turns;
    held->second.has_failed |= is_failure(parse_status(s.text(3)));
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

Store::ScoresOfOthers Store::scores_of_others(const std::string& experiment,
                                              const std::string& sources) const {
  ScoresOfOthers out;
  if (has_compact_tables(*db_)) {  // the scores are read only if some may be of other sources
    Statement any = db_->prepare("SELECT 1 FROM source WHERE hash <> ?");
    any << sources;
    if (!any.next()) return out;
  }
  const auto text = [&](const char* column) {
    return has_compact_tables(*db_)
               ? fmt::format("(SELECT n.name FROM name n WHERE n.id = x.{})", column)
               : fmt::format("x.{}", column);
  };
  const std::string others =
      has_sources(*db_) ? "x.sources IS NOT " + source_sql(*db_, "?2") : std::string("'' <> ?2");
  Statement s = db_->prepare(cell_rows_sql(
      *db_, "score", fmt::format("{}, {}", text("metric"), text("postprocess")), others));
  for (const std::string& cell : cell_keys(*db_, experiment)) {
    s << cell << sources;
    std::string dialogue;
    for (bool first = true; s.next();) {
      if (known_metric(s.view(2)) == nullptr) continue;  // fidelity, or of another version
      out.metrics[{s.text(2), s.text(3)}].insert(cell);
      if (!first && s.view(0) == dialogue) continue;
      first = false;
      dialogue = s.text(0);
      ++out.dialogues[cell];
    }
    s.reset();
  }
  return out;
}

}  // namespace turnbench
