#include "harness/store/record_keys.h"

#include "common/error.h"
#include "common/text.h"
#include "harness/store/schema.h"

namespace turnbench {
namespace {

/// The number of a text in a small table.  `known` has those that were looked up before.
std::int64_t find_or_add(const std::string& text, std::map<std::string, std::int64_t>& known,
                         Statement& find, Statement& add) {
  const auto [number, is_new] = known.try_emplace(text);
  if (!is_new) return number->second;
  for (Statement* statement : {&find, &add}) {
    *statement << text;
    const bool found = statement->next();
    if (found) number->second = statement->integer(0);
    statement->reset();
    if (found) break;
  }
  return number->second;
}

std::string deletion(const char* table, const char* column) {
  return fmt::format("DELETE FROM {} WHERE {} BETWEEN ? AND ?", table, column);
}

}  // namespace

RecordKeys::RecordKeys(const Database& db)
    : db_(db),
      find_cell_(db.prepare("SELECT id, dataset FROM cell WHERE key = ?")),
      find_dialogue_(db.prepare("SELECT number FROM dialogue WHERE dataset = ? AND id = ?")),
      find_name_(db.prepare("SELECT id FROM name WHERE name = ?")),
      add_name_(db.prepare("INSERT INTO name (name) VALUES (?) RETURNING id")),
      find_source_(db.prepare("SELECT id FROM source WHERE hash = ?")),
      add_source_(db.prepare("INSERT INTO source (hash) VALUES (?) RETURNING id")),
      find_environment_(db.prepare("SELECT number FROM environment WHERE id = ?")) {}

void RecordKeys::clear() {
  cells_.clear();
  for (auto* known : {&names_, &sources_, &environments_}) known->clear();
  last_cell_.clear();
  last_dialogue_.clear();
  last_unit_ = {};
}

RecordIds RecordKeys::cell(const std::string& key) {
  auto known = cells_.find(key);
  if (known == cells_.end()) {
    find_cell_ << key;
    const bool exists = find_cell_.next();
    if (exists) {
      known = cells_.try_emplace(key, find_cell_.integer(0), find_cell_.text(1)).first;
    }
    find_cell_.reset();
    if (!exists) return {};
  }
  constexpr int kBits = kDialogueBits + kTurnBits;
  const std::int64_t first = known->second.first << kBits;
  return {first, first + (std::int64_t{1} << kBits) - 1};
}

RecordIds RecordKeys::unit(const std::string& cell, const std::string& dialogue) {
  if (cell == last_cell_ && dialogue == last_dialogue_) return last_unit_;
  const RecordIds of_cell = this->cell(cell);
  RecordIds out;
  if (of_cell.first <= of_cell.last) {
    find_dialogue_ << cells_.at(cell).second << dialogue;
    if (find_dialogue_.next()) {
      out.first = of_cell.first + (find_dialogue_.integer(0) << kTurnBits);
      out.last = out.first + kMostTurns - 1;
    }
    find_dialogue_.reset();
  }
  last_cell_ = cell;
  last_dialogue_ = dialogue;
  last_unit_ = out;
  return out;
}

std::int64_t RecordKeys::record(const std::string& cell, const std::string& dialogue,
                                std::int64_t turn) {
  const RecordIds ids = unit(cell, dialogue);
  if (ids.last < ids.first) {
    throw runtime_error("{}: found dialogue {} of cell {}, expected one of the store", db_.path(),
                        printable(dialogue), printable(cell));
  }
  if (turn < 0 || turn >= kMostTurns) {
    throw runtime_error("{}: found the turn {} of dialogue {}, expected 0 to {}", db_.path(), turn,
                        printable(dialogue), kMostTurns - 1);
  }
  return ids.first + turn;
}

std::int64_t RecordKeys::name(const std::string& name) {
  return find_or_add(name, names_, find_name_, add_name_);
}

std::int64_t RecordKeys::source(const std::string& hash) {
  return find_or_add(hash, sources_, find_source_, add_source_);
}

std::int64_t RecordKeys::environment(const std::string& id) {
  const auto [known, is_new] = environments_.try_emplace(id);
  if (!is_new) return known->second;
  find_environment_ << id;
  if (!find_environment_.next()) {
    find_environment_.reset();
    environments_.erase(known);
    throw runtime_error("{}: found the unknown environment {}, expected one of the store",
                        db_.path(), printable(id));
  }
  known->second = find_environment_.integer(0);
  find_environment_.reset();
  return known->second;
}

RecordRemover::RecordRemover(const Database& db)
    : scores_(db.prepare(deletion("score_data", "record"))),
      counters_(db.prepare(deletion("counter_data", "record"))),
      timings_(db.prepare(deletion("timing_data", "record"))),
      ledgers_(db.prepare(deletion("ledger_data", "record"))),
      judgements_(db.prepare(deletion("judgement_data", "record"))),
      records_(db.prepare(deletion("record_data", "id"))) {}

void RecordRemover::remove(const RecordIds& ids) {
  for (Statement* rows : {&scores_, &counters_, &timings_, &ledgers_, &judgements_, &records_})
    (*rows << ids.first << ids.last).run();
}

StoredTexts StoredTexts::environments(const Database& db) {
  return {db, "SELECT number, id FROM environment"};
}

StoredTexts StoredTexts::names(const Database& db) {
  return {db, "SELECT id, name FROM name"};
}

StoredTexts::StoredTexts(const Database& db, const char* sql) : by_number_(has_compact_tables(db)) {
  if (!by_number_) return;
  Statement all = db.prepare(sql);
  while (all.next()) texts_[all.integer(0)] = all.text(1);
}

std::string_view StoredTexts::of(const Statement& row, int column) const {
  if (!by_number_) return row.view(column);
  const auto found = texts_.find(row.integer(column));
  return found == texts_.end() ? std::string_view() : std::string_view(found->second);
}

}  // namespace turnbench
