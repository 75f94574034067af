#include "harness/store/record_writer.h"

#include <nlohmann/json.hpp>
#include <set>
#include <string_view>
#include <utility>

#include "common/json.h"
#include "harness/store/packed_ledger.h"
#include "harness/store/packed_text.h"

namespace turnbench {

RecordWriter::RecordWriter(Database& db)
    : db_(db),
      older_(db.prepare(
          "SELECT DISTINCT r.environment, c.method FROM record r JOIN cell c ON c.key = r.cell "
          "WHERE r.cell = ? AND r.dialogue = ? AND r.environment <> ?")),
      record_(db.prepare("INSERT OR IGNORE INTO record_data VALUES (?,?,?,?,?,?,?,?,?,?)")),
      score_(db.prepare("INSERT OR IGNORE INTO score_data VALUES (?,?,?,?,?)")),
      counter_(db.prepare("INSERT OR IGNORE INTO counter_data VALUES (?,?,?)")),
      timing_(db.prepare("INSERT OR IGNORE INTO timing_data VALUES (?,?,?)")),
      ledger_(db.prepare("INSERT OR IGNORE INTO ledger_data VALUES (?,?,?)")),
      remover_(db),
      keys_(db) {}

void RecordWriter::remove_stale(const std::string& cell, const std::string& dialogue,
                                const Run& run) {
  bool stale = false;
  older_ << cell << dialogue << run.environment;
  while (older_.next()) stale |= run.differs(older_.text(1), older_.text(0));
  older_.reset();
  if (stale) remover_.remove(keys_.unit(cell, dialogue));
}

void RecordWriter::write_values(std::int64_t id, const Record& r) {
  for (const auto& [name, value] : r.counters) (counter_ << id << keys_.name(name) << value).run();
  for (const auto& [name, value] : r.timings) (timing_ << id << keys_.name(name) << value).run();
  if (r.ledger.empty()) return;
  const BoundedLedger bounded = bound(r.ledger);
  (ledger_ << id << Statement::Blob{bounded.data} << bounded.dropped).run();
}

void RecordWriter::write(const std::vector<Record>& records, const std::vector<ScoreValue>& scores,
                         const Run& run) {
  keys_.clear();
  const std::int64_t environment = keys_.environment(run.environment);
  std::set<std::pair<std::string_view, std::string_view>> seen;
  std::set<std::int64_t> own, known;  // records; known: stored by another run
  for (const Record& r : records) {
    const std::int64_t id = keys_.record(r.cell, r.dialogue, r.turn);
    if (seen.emplace(r.cell, r.dialogue).second) remove_stale(r.cell, r.dialogue, run);
    (record_ << id << name_of(r.status) << PackedText(r.error) << r.prompt_hash << r.prompt_tokens
             << r.truncated_tokens << PackedText(r.answer) << Json(r.answer_tokens).dump()
             << (r.stopped ? 1 : 0) << environment)
        .run();
    if (db_.changes() > 0) {
      own.insert(id);
      write_values(id, r);
    } else if (!own.contains(id)) {
      known.insert(id);
    }
  }
  const std::int64_t metrics = scores.empty() ? 0 : keys_.source(run.metrics);
  for (const ScoreValue& s : scores) {
    const std::int64_t id = keys_.record(s.cell, s.dialogue, s.turn);
    if (known.contains(id)) continue;
    (score_ << id << keys_.name(s.metric) << keys_.name(s.postprocess) << s.value << metrics).run();
  }
}

}  // namespace turnbench
