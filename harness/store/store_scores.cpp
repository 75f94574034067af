#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "common/error.h"
#include "common/json.h"
#include "common/text.h"
#include "datasets/dialogue_io.h"
#include "harness/store/packed_text.h"
#include "harness/store/record_keys.h"
#include "harness/store/schema.h"
#include "harness/store/store.h"

namespace turnbench {
namespace {

Judgement::Status parse_judgement_status(const std::string& text) {
  return text == "ok"         ? Judgement::Status::kOk
         : text == "unparsed" ? Judgement::Status::kUnparsed
                              : Judgement::Status::kFailed;
}

constexpr std::string_view kDialogue =
    "SELECT dataset, id, turns, json FROM dialogue WHERE dataset = ? AND id = ?";

/// Runs and resets a statement of kDialogue.
StoredDialogue read_dialogue(Statement& s, const std::string& dataset, const std::string& id,
                             const std::string& path) {
  s << dataset << id;
  if (!s.next()) {
    throw input_error("{}: found no dialogue {}, expected one", path, printable(id));
  }
  StoredDialogue out{s.text(0), s.text(1), static_cast<int>(s.integer(2)), unpacked_text(s, 3)};
  s.reset();
  return out;
}

}  // namespace

std::string_view name_of(Judgement::Status status) {
  switch (status) {
    case Judgement::Status::kOk:
      return "ok";
    case Judgement::Status::kUnparsed:
      return "unparsed";
    case Judgement::Status::kFailed:
      return "failed";
  }
  return "failed";
}

std::string name_of(const Judge& judge) {
  return judge.model + "@" + judge.id.substr(0, 8);
}

void Store::for_each_answered_dialogue(
    const std::string& experiment,
    const std::function<void(const StoredDialogue&, const std::vector<Answer>&)>& visit) const {
  // `visit` may write, and SQLite forbids writing while a statement still reads data that another
  // process has changed since: all statements must be finished before the call.
  std::vector<std::pair<std::string, std::string>> ids;  // dataset, dialogue
  Statement all = db_->prepare(
      fmt::format("SELECT dataset, id FROM dialogue WHERE dataset IN (SELECT c.dataset "
                  "FROM {} e JOIN cell c ON c.key = e.cell) ORDER BY dataset, id",
                  kCellsSql));
  all << experiment;
  while (all.next()) ids.emplace_back(all.text(0), all.text(1));
  all.reset();
  Statement dialogues = db_->prepare(kDialogue);
  Statement records = db_->prepare(
      fmt::format("SELECT r.cell, r.turn, r.answer FROM {} e JOIN cell c ON c.key = e.cell "
                  "JOIN record r ON r.cell = c.key WHERE c.dataset = ?2 AND r.dialogue = ?3 AND "
                  "r.status = 'ok' ORDER BY r.cell, r.turn",
                  kCellsSql));
  for (const auto& [dataset, id] : ids) {
    const StoredDialogue dialogue = read_dialogue(dialogues, dataset, id, path());
    records << experiment << dataset << id;
    std::vector<Answer> answers;
    while (records.next()) {
      const std::int64_t turn = records.integer(1);
      if (turn < 0 || turn >= dialogue.turns) {
        throw input_error("{}: found the turn {} of dialogue {}, expected 0 to {}", path(), turn,
                          printable(id), dialogue.turns - 1);
      }
      answers.push_back({records.text(0), static_cast<int>(turn), unpacked_text(records, 2)});
    }
    records.reset();
    if (!answers.empty()) visit(dialogue, answers);
  }
}

StoredDialogue Store::dialogue(const std::string& dataset_hash, const std::string& id) const {
  Statement s = db_->prepare(kDialogue);
  return read_dialogue(s, dataset_hash, id, path());
}

Dialogue Store::parse(const StoredDialogue& stored) const {
  const std::string place = path() + ": dialogue " + printable(stored.id);
  Dialogue out = parse_dialogue(stored.json, place);
  if (out.turns.size() != static_cast<std::size_t>(stored.turns)) {
    throw input_error("{}: found {} turns, expected {}", place, out.turns.size(), stored.turns);
  }
  return out;
}

std::map<int, std::string> Store::answers(const std::string& cell,
                                          const std::string& dialogue) const {
  std::map<int, std::string> out;
  Statement s = db_->prepare(
      "SELECT turn, answer FROM record WHERE cell = ? AND dialogue = ? AND status = 'ok'");
  s << cell << dialogue;
  while (s.next()) out[static_cast<int>(s.integer(0))] = unpacked_text(s, 1);
  return out;
}

std::vector<std::optional<double>> Store::put_scores(const std::vector<ScoreValue>& scores,
                                                     bool replace) {
  std::vector<std::optional<double>> out;
  if (scores.empty()) return out;
  Transaction transaction(*db_);
  RecordKeys keys(*db_);
  Statement before = db_->prepare(
      "SELECT value FROM score_data WHERE record = ? AND metric = ? AND postprocess = ?");
  Statement put = db_->prepare("INSERT OR REPLACE INTO score_data VALUES (?,?,?,?,?)");
  const std::int64_t sources = keys.source(sources_["metrics"]);
  for (const ScoreValue& s : scores) {
    const std::int64_t id = keys.record(s.cell, s.dialogue, s.turn), metric = keys.name(s.metric),
                       postprocess = keys.name(s.postprocess);
    before << id << metric << postprocess;
    out.push_back(before.next() ? std::optional(before.real(0)) : std::nullopt);
    before.reset();
    if (out.back() && out.back() != s.value && !replace) continue;
    (put << id << metric << postprocess << s.value << sources).run();
  }
  transaction.commit();
  return out;
}

std::vector<bool> Store::delete_scores(const std::vector<ScoreValue>& scores) {
  std::vector<bool> out;
  if (scores.empty()) return out;
  Transaction transaction(*db_);
  RecordKeys keys(*db_);
  Statement forget =
      db_->prepare("DELETE FROM score_data WHERE record = ? AND metric = ? AND postprocess = ?");
  for (const ScoreValue& s : scores) {
    (forget << keys.record(s.cell, s.dialogue, s.turn) << keys.name(s.metric)
            << keys.name(s.postprocess))
        .run();
    out.push_back(db_->changes() > 0);
  }
  transaction.commit();
  return out;
}

std::vector<std::string> Store::metrics(const std::string& experiment) const {
  std::set<std::string> out;
  const StoredTexts names = StoredTexts::names(*db_);
  Statement s = db_->prepare(fmt::format("SELECT DISTINCT metric FROM ({})",
                                         cell_rows_sql(*db_, "score", "x.metric AS metric")));
  for (const std::string& cell : cell_keys(*db_, experiment)) {
    s << cell;
    while (s.next()) out.emplace(names.of(s, 0));
    s.reset();
  }
  return {out.begin(), out.end()};
}

std::map<std::string, bool> Store::postprocesses(const std::string& experiment,
                                                 const std::string& metric) const {
  std::map<std::string, bool> out;
  const StoredTexts names = StoredTexts::names(*db_);
  Statement own = db_->prepare("SELECT postprocess FROM cell WHERE key = ?");
  Statement s =
      db_->prepare(fmt::format("SELECT DISTINCT postprocess FROM ({})",
                               cell_rows_sql(*db_, "score", "x.postprocess AS postprocess",
                                             "x.metric = " + name_sql(*db_, "?2"))));
  for (const std::string& cell : cell_keys(*db_, experiment)) {
    own << cell;
    const std::string of_cell = own.next() ? own.text(0) : "";
    own.reset();
    s << cell << metric;
    while (s.next()) out[std::string(names.of(s, 0))] |= names.of(s, 0) == of_cell;
    s.reset();
  }
  return out;
}

void Store::add_judge(const Judge& judge) {
  (db_->prepare("INSERT OR IGNORE INTO judge VALUES (?,?,?,?,?)")
   << judge.id << judge.rubric << judge.rubric_hash << judge.rubric_text << judge.model)
      .run();
}

void Store::add_judgement(const Judgement& j) {
  OrderedJson values = OrderedJson::object();
  for (const auto& [name, value] : j.scores) values[name] = value;
  Transaction transaction(*db_);
  const std::int64_t id = RecordKeys(*db_).record(j.cell, j.dialogue, j.turn);
  (db_->prepare("DELETE FROM judgement_data WHERE record = ? AND judge = ? AND ordinal = ? AND "
                "status = 'failed'")
   << id << j.judge << j.ordinal)
      .run();
  (db_->prepare("INSERT OR IGNORE INTO judgement_data VALUES (?,?,?,?,?,?,?,?)")
   << id << j.judge << j.ordinal << j.url << name_of(j.status) << j.error << PackedText(j.reply)
   << values.dump())
      .run();
  transaction.commit();
}

std::vector<Store::JudgementCounts> Store::judgement_counts(const std::string& experiment) const {
  std::vector<JudgementCounts> out;
  if (!has_judgements(*db_)) return out;
  Statement s =
      db_->prepare(fmt::format("SELECT g.id, g.rubric, g.rubric_hash, g.model, count(*), "
                               "sum(j.status = 'unparsed'), sum(j.status = 'failed') FROM {} e "
                               "JOIN judgement j ON j.cell = e.cell JOIN judge g ON g.id = j.judge "
                               "GROUP BY g.id ORDER BY g.rubric, g.model, g.id",
                               kCellsSql));
  s << experiment;
  while (s.next()) {
    out.push_back({{s.text(0), s.text(1), s.text(2), "", s.text(3)},
                   static_cast<std::size_t>(s.integer(4)),
                   static_cast<std::size_t>(s.integer(5)),
                   static_cast<std::size_t>(s.integer(6))});
  }
  return out;
}

std::vector<Judgement> Store::judgements(const std::string& judge, const std::string& cell,
                                         const std::string& dialogue, int turn) const {
  std::vector<Judgement> out;
  if (!has_judgements(*db_)) return out;
  Statement s = db_->prepare(
      "SELECT ordinal, url, status, error, reply, scores FROM judgement WHERE cell = ? AND "
      "dialogue = ? AND turn = ? AND judge = ? ORDER BY ordinal");
  s << cell << dialogue << turn << judge;
  while (s.next()) {
    Judgement j{cell,
                dialogue,
                turn,
                judge,
                static_cast<int>(s.integer(0)),
                s.text(1),
                parse_judgement_status(s.text(2)),
                s.text(3),
                unpacked_text(s, 4),
                {}};
    const std::string place = path() + ": judgement of " + printable(dialogue);
    const Json values = parse_json(s.text(5), place);
    const JsonView view(values, place);
    for (const std::string& name : view.keys())
      j.scores.push_back({name, view.at(name).as_number()});
    out.push_back(std::move(j));
  }
  return out;
}

}  // namespace turnbench
