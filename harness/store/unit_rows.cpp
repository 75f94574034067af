#include "harness/store/unit_rows.h"

#include <algorithm>

#include "common/text.h"
#include "harness/store/packed_text.h"
#include "harness/store/schema.h"

namespace turnbench {
namespace {

constexpr std::size_t kShownValue = 60;  // characters of a value in a message

std::string shown(const std::string& text) {
  return "\"" + printable(shorten(text, kShownValue)) + "\"";
}
std::string shown(std::int64_t number) {
  return fmt::format("{}", number);
}
std::string shown(const double* value) {
  return value == nullptr ? "none" : fmt::format("{}", *value);
}

/// The name of a score in messages: "qa_f1", or "qa_f1/first_line" with a post-processing.
std::string name_of(const TurnRows::Score& score) {
  return score.postprocess == "none" ? score.metric : score.metric + "/" + score.postprocess;
}

bool same_key(const TurnRows::Score& a, const TurnRows::Score& b) {
  return a.metric == b.metric && a.postprocess == b.postprocess;
}
bool same_key(const TurnRows::JudgementRow& a, const TurnRows::JudgementRow& b) {
  return a.judge == b.judge && a.ordinal == b.ordinal;
}

/// The row of `rows` with the key of `row`; null if there is none.
template <typename Row>
const Row* find_same(const std::vector<Row>& rows, const Row& row) {
  const auto found = std::find_if(rows.begin(), rows.end(),
                                  [&](const Row& other) { return same_key(other, row); });
  return found == rows.end() ? nullptr : &*found;
}

std::optional<UnitDifference> difference_in_values(const TurnRows& a, const TurnRows& b) {
  for (const TurnRows::Score& score : a.scores) {
    const TurnRows::Score* other = find_same(b.scores, score);
    if (other != nullptr && other->value != score.value) {
      return UnitDifference{a.turn, "score " + name_of(score), shown(&score.value),
                            shown(&other->value)};
    }
  }
  auto x = a.counters.begin(), y = b.counters.begin();
  while (x != a.counters.end() || y != b.counters.end()) {
    const bool in_a = x != a.counters.end() && (y == b.counters.end() || x->name <= y->name),
               in_b = y != b.counters.end() && (x == a.counters.end() || y->name <= x->name);
    if (!in_a || !in_b || x->value != y->value) {
      return UnitDifference{a.turn, "counter " + (in_a ? x->name : y->name),
                            shown(in_a ? &x->value : nullptr), shown(in_b ? &y->value : nullptr)};
    }
    ++x;
    ++y;
  }
  return std::nullopt;
}

std::optional<UnitDifference> difference_in(const TurnRows& a, const TurnRows& b) {
  const auto differ = [&](const char* field, const auto& x, const auto& y) {
    return x == y ? std::nullopt : std::optional(UnitDifference{a.turn, field, shown(x), shown(y)});
  };
  auto out = differ("status", a.status, b.status);
  if (!out) out = differ("error", a.error, b.error);
  if (!out) out = differ("prompt_hash", a.prompt_hash, b.prompt_hash);
  if (!out) out = differ("prompt_tokens", a.prompt_tokens, b.prompt_tokens);
  if (!out) out = differ("truncated_tokens", a.truncated_tokens, b.truncated_tokens);
  if (!out) out = differ("answer", a.answer, b.answer);
  if (!out) out = differ("answer_tokens", a.answer_tokens, b.answer_tokens);
  if (!out) out = differ("stopped", a.stopped, b.stopped);
  return out ? out : difference_in_values(a, b);
}

std::string select_of_unit(const char* columns, const char* table, const char* order) {
  return fmt::format("SELECT turn, {} FROM {} WHERE cell = ? AND dialogue = ? ORDER BY turn{}",
                     columns, table, order);
}

}  // namespace

bool UnitRows::failed() const {
  return std::any_of(turns.begin(), turns.end(), [](const TurnRows& turn) {
    return turn.status != name_of(Record::Status::kOk) &&
           turn.status != name_of(Record::Status::kNoValue);
  });
}

std::optional<UnitDifference> difference_between(const UnitRows& first, const UnitRows& second) {
  const std::size_t common = std::min(first.turns.size(), second.turns.size());
  for (std::size_t i = 0; i < common; ++i) {
    const TurnRows &a = first.turns[i], &b = second.turns[i];
    if (a.turn != b.turn)
      return UnitDifference{a.turn, "turn", shown(a.turn + 1), shown(b.turn + 1)};
    if (auto difference = difference_in(a, b)) return difference;
  }
  if (first.turns.size() == second.turns.size()) return std::nullopt;
  return UnitDifference{static_cast<std::int64_t>(common), "number of turns",
                        fmt::format("{}", first.turns.size()),
                        fmt::format("{}", second.turns.size())};
}

UnitReader::UnitReader(const Database& db)
    : records_(db.prepare(
          select_of_unit("status, error, prompt_hash, prompt_tokens, truncated_tokens, answer, "
                         "answer_tokens, stopped, environment",
                         "record", ""))),
      scores_(db.prepare(select_of_unit(has_sources(db) ? "metric, postprocess, value, sources"
                                                        : "metric, postprocess, value, ''",
                                        "score", ", metric, postprocess"))),
      counters_(db.prepare(select_of_unit("name, value", "counter", ", name"))),
      timings_(db.prepare(select_of_unit("name, value", "timing", ", name"))) {
  if (has_ledgers(db)) {
    ledgers_.reset(new Statement(db.prepare(
        select_of_unit(has_compact_tables(db) ? "data, dropped" : "data, ''", "ledger", ""))));
  }
  if (has_judgements(db)) {
    judgements_.reset(new Statement(db.prepare(select_of_unit(
        "judge, ordinal, url, status, error, reply, scores", "judgement", ", judge, ordinal"))));
  }
}

template <typename Row>
void UnitReader::for_each(Statement* statement, const std::string& cell,
                          const std::string& dialogue, UnitRows& unit, const Row& row) {
  if (statement == nullptr) return;
  *statement << cell << dialogue;
  for (auto turn = unit.turns.begin(); statement->next();) {
    while (turn != unit.turns.end() && turn->turn < statement->integer(0)) ++turn;
    if (turn == unit.turns.end()) break;
    if (turn->turn == statement->integer(0)) row(*turn, *statement);
  }
  statement->reset();
}

UnitRows UnitReader::read(const std::string& cell, const std::string& dialogue) {
  UnitRows out;
  records_ << cell << dialogue;
  while (records_.next()) {
    TurnRows& turn = out.turns.emplace_back();
    turn.turn = records_.integer(0);
    turn.status = records_.text(1);
    turn.error = unpacked_text(records_, 2);
    turn.prompt_hash = records_.text(3);
    turn.prompt_tokens = records_.integer(4);
    turn.truncated_tokens = records_.integer(5);
    turn.answer = unpacked_text(records_, 6);
    turn.answer_tokens = records_.text(7);
    turn.stopped = records_.integer(8);
    turn.environment = records_.text(9);
  }
  records_.reset();
  if (out.turns.empty()) return out;
  for_each(&scores_, cell, dialogue, out, [](TurnRows& turn, const Statement& s) {
    turn.scores.push_back({s.text(1), s.text(2), s.real(3), s.text(4)});
  });
  for_each(&counters_, cell, dialogue, out, [](TurnRows& turn, const Statement& s) {
    turn.counters.push_back({s.text(1), s.real(2)});
  });
  for_each(&timings_, cell, dialogue, out, [](TurnRows& turn, const Statement& s) {
    turn.timings.push_back({s.text(1), s.real(2)});
  });
  for_each(ledgers_.get(), cell, dialogue, out, [](TurnRows& turn, const Statement& s) {
    turn.ledger = {std::string(s.bytes(1)), s.text(2)};
  });
  for_each(judgements_.get(), cell, dialogue, out, [](TurnRows& turn, const Statement& s) {
    turn.judgements.push_back(
        {s.text(1), s.integer(2), s.text(3), s.text(4), s.text(5), unpacked_text(s, 6), s.text(7)});
  });
  return out;
}

UnitWriter::UnitWriter(const Database& db)
    : keys_(db),
      remover_(db),
      record_(db.prepare("INSERT INTO record_data VALUES (?,?,?,?,?,?,?,?,?,?)")),
      score_(db.prepare("INSERT INTO score_data VALUES (?,?,?,?,?)")),
      counter_(db.prepare("INSERT INTO counter_data VALUES (?,?,?)")),
      timing_(db.prepare("INSERT INTO timing_data VALUES (?,?,?)")),
      ledger_(db.prepare("INSERT INTO ledger_data VALUES (?,?,?)")),
      judgement_(db.prepare("INSERT OR REPLACE INTO judgement_data VALUES (?,?,?,?,?,?,?,?)")) {}

void UnitWriter::put(std::int64_t record, const TurnRows::Score& score) {
  (score_ << record << keys_.name(score.metric) << keys_.name(score.postprocess) << score.value
          << keys_.source(score.sources))
      .run();
}

void UnitWriter::put(std::int64_t record, const TurnRows::JudgementRow& j) {
  (judgement_ << record << j.judge << j.ordinal << j.url << j.status << j.error
              << PackedText(j.reply) << j.scores)
      .run();
}

void UnitWriter::add(const std::string& cell, const std::string& dialogue, const UnitRows& unit) {
  for (const TurnRows& t : unit.turns) {
    const std::int64_t id = keys_.record(cell, dialogue, t.turn);
    (record_ << id << t.status << PackedText(t.error) << t.prompt_hash << t.prompt_tokens
             << t.truncated_tokens << PackedText(t.answer) << t.answer_tokens << t.stopped
             << keys_.environment(t.environment))
        .run();
    for (const TurnRows::Score& score : t.scores) put(id, score);
    for (const auto& [name, value] : t.counters)
      (counter_ << id << keys_.name(name) << value).run();
    for (const auto& [name, value] : t.timings) (timing_ << id << keys_.name(name) << value).run();
    if (t.ledger) (ledger_ << id << Statement::Blob{t.ledger->data} << t.ledger->dropped).run();
    for (const TurnRows::JudgementRow& judgement : t.judgements) put(id, judgement);
  }
}

void UnitWriter::remove(const std::string& cell, const std::string& dialogue) {
  remover_.remove(keys_.unit(cell, dialogue));
}

std::pair<std::size_t, std::size_t> UnitWriter::complete(const std::string& cell,
                                                         const std::string& dialogue,
                                                         const UnitRows& unit,
                                                         const UnitRows& more) {
  std::pair<std::size_t, std::size_t> added;
  for (std::size_t i = 0; i < std::min(unit.turns.size(), more.turns.size()); ++i) {
    const TurnRows &own = unit.turns[i], &other = more.turns[i];
    for (const TurnRows::Score& score : other.scores) {
      if (find_same(own.scores, score) != nullptr) continue;
      put(keys_.record(cell, dialogue, own.turn), score);
      ++added.first;
    }
    for (const TurnRows::JudgementRow& judgement : other.judgements) {
      const TurnRows::JudgementRow* old = find_same(own.judgements, judgement);
      const bool better =
          old == nullptr || (old->status == "failed" && judgement.status != "failed");
      if (!better) continue;
      put(keys_.record(cell, dialogue, own.turn), judgement);
      ++added.second;
    }
  }
  return added;
}

}  // namespace turnbench
