#include "common/error.h"
#include "common/text.h"
#include "harness/store/packed_ledger.h"
#include "harness/store/packed_text.h"
#include "harness/store/schema.h"
#include "harness/store/store.h"

namespace turnbench {

std::vector<Store::StoredAnswer> Store::answers_of(const std::string& experiment,
                                                   const std::string& dataset_hash,
                                                   const std::string& dialogue) const {
  Statement s = db_->prepare(fmt::format(
      "SELECT r.cell, r.turn, r.status, r.error, r.answer, r.prompt_tokens, "
      "json_array_length(r.answer_tokens), (SELECT s.value FROM score s WHERE s.cell = r.cell AND "
      "s.dialogue = r.dialogue AND s.turn = r.turn AND s.metric = c.metric AND s.postprocess = "
      "c.postprocess), d.turns, r.stopped FROM {} e "
      "JOIN cell c ON c.key = e.cell JOIN record r ON r.cell = c.key "
      "JOIN dialogue d ON d.dataset = c.dataset AND d.id = r.dialogue "
      "WHERE c.dataset = ?2 AND r.dialogue = ?3 ORDER BY e.ordinal, r.turn",
      kCellsSql));
  s << experiment << dataset_hash << dialogue;
  std::vector<StoredAnswer> out;
  while (s.next()) {
    const std::int64_t turn = s.integer(1), turns = s.integer(8);
    if (turn < 0 || turn >= turns) {
      throw input_error("{}: found the turn {} of dialogue {}, expected 0 to {}", path(), turn,
                        printable(dialogue), turns - 1);
    }
    StoredAnswer& answer = out.emplace_back();
    answer.cell = s.text(0);
    answer.turn = static_cast<int>(turn);
    answer.status = s.text(2);
    answer.error = unpacked_text(s, 3);
    answer.answer = unpacked_text(s, 4);
    answer.prompt_tokens = static_cast<int>(s.integer(5));
    answer.answer_tokens = static_cast<int>(s.integer(6));
    if (!s.is_null(7)) answer.score = s.real(7);
    answer.stopped = s.integer(9) != 0;
  }
  return out;
}

std::vector<Store::TurnResult> Store::turn_results(const std::string& cell) const {
  std::vector<TurnResult> out;
  Statement records = db_->prepare(
      cell_rows_sql(*db_, "record", "x.status, x.prompt_hash, x.answer, x.answer_tokens"));
  records << cell;
  while (records.next()) {
    out.push_back({records.text(0),
                   static_cast<int>(records.integer(1)),
                   records.text(2),
                   records.text(3),
                   unpacked_text(records, 4),
                   records.text(5),
                   {}});
  }
  Statement counters = db_->prepare(
      "SELECT dialogue, turn, name, value FROM counter WHERE cell = ? "
      "ORDER BY dialogue, turn, name");
  counters << cell;
  auto result = out.begin();
  while (counters.next()) {
    const std::string_view dialogue = counters.view(0);
    const std::int64_t turn = counters.integer(1);
    while (result != out.end() && (result->dialogue != dialogue || result->turn != turn)) ++result;
    if (result == out.end()) break;  // each counter belongs to a record
    result->counters.push_back({counters.text(2), counters.real(3)});
  }
  return out;
}

std::set<std::string> Store::environments_of(const std::string& cell) const {
  std::set<std::string> out;
  Statement s = db_->prepare("SELECT DISTINCT environment FROM record WHERE cell = ?");
  s << cell;
  while (s.next()) out.insert(s.text(0));
  return out;
}

std::set<std::string> Store::score_sources(const Cell& cell) const {
  std::set<std::string> out;
  if (!has_sources(*db_)) return out;
  Statement s = db_->prepare(
      "SELECT DISTINCT sources FROM score WHERE cell = ? AND metric = ? AND postprocess = ?");
  s << cell.key << cell.metric << cell.postprocess;
  while (s.next()) out.insert(s.text(0));
  return out;
}

void Store::for_each_ledger(
    const std::string& experiment,
    const std::function<void(const std::string&, const std::string&, int, const Ledger&,
                             const std::string&)>& visit) const {
  if (!has_ledgers(*db_)) return;
  Statement s = db_->prepare(
      cell_rows_sql(*db_, "ledger", has_compact_tables(*db_) ? "x.data, x.dropped" : "x.data, ''"));
  for (const std::string& cell : cell_keys(*db_, experiment)) {
    s << cell;
    while (s.next()) {
      const std::string dialogue = s.text(0);
      const int turn = static_cast<int>(s.integer(1));
      const std::string where =
          fmt::format("{}: ledger of dialogue {}, turn {}", path(), printable(dialogue), turn);
      visit(cell, dialogue, turn, unpack_ledger(s.bytes(2), where), s.text(3));
    }
    s.reset();
  }
}

}  // namespace turnbench
