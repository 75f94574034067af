#include "harness/store/cell_summary.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "common/error.h"
#include "common/json.h"
#include "harness/store/record_keys.h"
#include "harness/store/schema.h"

namespace turnbench {
namespace {

/// Version of the summaries: they are computed again if it changes.
constexpr int kSummaryVersion = 1;
/// Cells whose summaries are stored in one transaction, for which other programs wait.
constexpr std::size_t kCellsAtOnce = 50;

/// A generated answer.
struct AnswerSize {
  int prompt_tokens, tokens;
  bool stopped;

  /// Tokens that full attention reads per step, on average: each step reads the preceding tokens
  /// and its own.  The last token of an answer that reached its limit is never read.
  double read_by_full() const {
    const int steps = tokens - (stopped ? 0 : 1);
    return prompt_tokens + (steps + 1) / 2.0;
  }
};

/// The counters of a record that show how much of attention was omitted.
struct Counted {
  std::optional<double> kept, read, pairs;

  void set(std::string_view name, double value) {
    if (name == "kv_tokens") kept = value;
    if (name == "attended_tokens") read = value;
    if (name == "prefill_pairs_share") pairs = value;
  }
};

CellUsage usage_of(const AnswerSize& answer, const Counted& counted) {
  constexpr double kRounding = 1e-9;
  const auto reaches = [](const std::optional<double>& x, double full) {
    return *x >= full * (1 - kRounding);
  };
  CellUsage out;
  out.answers = 1;
  out.limited = answer.stopped ? 0 : 1;
  out.longest_prompt = answer.prompt_tokens;
  out.prompt.add(answer.prompt_tokens);
  if (counted.kept) out.kept.add(*counted.kept);
  if (counted.read) {
    out.read.add(*counted.read);
    out.answered.add(answer.read_by_full() - answer.prompt_tokens);
  }
  // An answer of one token needs no step.
  const bool as_full = counted.kept && reaches(counted.kept, answer.prompt_tokens) &&
                       counted.pairs && reaches(counted.pairs, 1) &&
                       (!counted.read || reaches(counted.read, answer.read_by_full()));
  out.as_full = as_full ? 1 : 0;
  return out;
}

/// Computes summaries from the records and counters of cells.
class SummaryReader {
 public:
  explicit SummaryReader(const Database& db)
      : dataset_(db.prepare("SELECT dataset FROM cell WHERE key = ?")),
        dialogues_(db.prepare("SELECT id, turns FROM dialogue WHERE dataset = ?")),
        records_(db.prepare(cell_rows_sql(
            db, "record",
            "x.status, x.prompt_tokens, x.truncated_tokens, x.stopped, CASE WHEN x.status = 'ok' "
            "AND x.prompt_tokens > 0 THEN json_array_length(x.answer_tokens) END"))),
        counters_(db.prepare(cell_rows_sql(db, "counter", "x.name, x.value"))),
        names_(StoredTexts::names(db)) {}

  CellSummary read(const std::string& cell) {
    CellSummary out;
    const std::map<std::string, int, std::less<>>& turns = turns_of(cell);
    counters_ << cell;
    more_counters_ = counters_.next();
    records_ << cell;
    std::string dialogue;
    int stored = 0, lost = 0;  // turns, and tokens cut out of the prompts so far
    bool failed = false;
    const auto end_dialogue = [&] {
      const auto all = turns.find(dialogue);
      if (stored == 0 || all == turns.end() || stored < all->second) return;
      ++out.whole;
      out.failed += failed;
    };
    while (records_.next()) {
      if (records_.view(0) != dialogue) {
        end_dialogue();
        dialogue = records_.text(0);
        stored = lost = 0;
        failed = false;
      }
      ++stored;
      const std::string_view status = records_.view(2);
      const bool ok = status == "ok";
      failed |= !ok && status != "no_value";
      const Counted counted = counters_of(dialogue, records_.integer(1), out);
      const int prompt = static_cast<int>(records_.integer(3));
      if (prompt <= 0) continue;  // imported answers have no prompt
      lost += static_cast<int>(records_.integer(4));
      out.truncation.add(prompt, lost);
      if (!ok) continue;
      out.usage += usage_of(
          {prompt, static_cast<int>(records_.integer(6)), records_.integer(5) != 0}, counted);
    }
    end_dialogue();
    records_.reset();
    counters_.reset();
    return out;
  }

 private:
  /// The dialogues of a cell's dataset, with their turns.
  const std::map<std::string, int, std::less<>>& turns_of(const std::string& cell) {
    dataset_ << cell;
    const std::string dataset = dataset_.next() ? dataset_.text(0) : "";
    dataset_.reset();
    const auto [known, is_new] = turns_.try_emplace(dataset);
    if (!is_new) return known->second;
    dialogues_ << dataset;
    while (dialogues_.next())
      known->second[dialogues_.text(0)] = static_cast<int>(dialogues_.integer(1));
    dialogues_.reset();
    return known->second;
  }

  /// Adds the counters of a record, which follow those that were already read, to the means.
  Counted counters_of(std::string_view dialogue, std::int64_t turn, CellSummary& summary) {
    Counted out;
    for (; more_counters_; more_counters_ = counters_.next()) {
      const int order = counters_.view(0).compare(dialogue);
      if (order > 0 || (order == 0 && counters_.integer(1) > turn)) break;
      const std::string_view name = names_.of(counters_, 2);
      auto mean = summary.counters.find(name);
      if (mean == summary.counters.end())
        mean = summary.counters.try_emplace(std::string(name)).first;
      mean->second.add(counters_.real(3));
      if (order == 0 && counters_.integer(1) == turn) out.set(name, counters_.real(3));
    }
    return out;
  }

  Statement dataset_, dialogues_, records_, counters_;
  StoredTexts names_;
  bool more_counters_ = false;
  std::map<std::string, std::map<std::string, int, std::less<>>> turns_;  ///< by dataset
};

OrderedJson to_json(const Mean& mean) {
  return {mean.sum, mean.count};
}

Mean mean_from(const Json& json) {
  return {json.at(0).get<double>(), json.at(1).get<int>()};
}

std::string to_text(const CellSummary& s) {
  const CellUsage& u = s.usage;
  const Truncation& t = s.truncation;
  OrderedJson out = {{"version", kSummaryVersion},
                     {"usage",
                      {u.answers, u.limited, u.as_full, u.longest_prompt, to_json(u.prompt),
                       to_json(u.kept), to_json(u.read), to_json(u.answered)}},
                     {"truncation", {t.prompts, t.cut, t.longest, t.cut_to}},
                     {"whole", s.whole},
                     {"failed", s.failed},
                     {"counters", OrderedJson::object()}};
  for (const auto& [name, mean] : s.counters) out["counters"][name] = to_json(mean);
  return out.dump();
}

/// The summary that `to_text` wrote; nothing for that of another version.
std::optional<CellSummary> summary_from(std::string_view text) {
  try {
    const Json json = Json::parse(text);
    if (json.at("version") != kSummaryVersion) return std::nullopt;
    const Json &u = json.at("usage"), &t = json.at("truncation");
    CellSummary out;
    out.usage = {.answers = u.at(0),
                 .limited = u.at(1),
                 .as_full = u.at(2),
                 .longest_prompt = u.at(3),
                 .prompt = mean_from(u.at(4)),
                 .kept = mean_from(u.at(5)),
                 .read = mean_from(u.at(6)),
                 .answered = mean_from(u.at(7))};
    out.truncation = {t.at(0), t.at(1), t.at(2), t.at(3)};
    out.whole = json.at("whole");
    out.failed = json.at("failed");
    for (const auto& [name, mean] : json.at("counters").items())
      out.counters[name] = mean_from(mean);
    return out;
  } catch (const Json::exception&) {
    return std::nullopt;
  }
}

/// Reads stored summaries.  Returns the cells without one.
std::vector<std::string> read_stored(const Database& db, const std::vector<std::string>& cells,
                                     std::map<std::string, CellSummary>& out) {
  if (!has_compact_tables(db)) return cells;
  std::vector<std::string> missing;
  Statement read =
      db.prepare("SELECT s.json FROM cell_summary s JOIN cell c ON c.id = s.cell WHERE c.key = ?");
  for (const std::string& cell : cells) {
    read << cell;
    const std::optional<CellSummary> summary =
        read.next() ? summary_from(read.view(0)) : std::nullopt;
    read.reset();
    if (summary) {
      out[cell] = *summary;
    } else {
      missing.push_back(cell);
    }
  }
  return missing;
}

/// Computes summaries and stores them, within a transaction, so that no record changes meanwhile.
void compute_and_store(const Database& db, SummaryReader& reader,
                       const std::vector<std::string>& cells,
                       std::map<std::string, CellSummary>& out) {
  Statement write = db.prepare(
      "INSERT OR REPLACE INTO cell_summary (cell, json) SELECT id, ?2 FROM cell WHERE key = ?1");
  for (const std::string& cell : cells) {
    out[cell] = reader.read(cell);
    (write << cell << to_text(out[cell])).run();
  }
}

}  // namespace

std::map<std::string, CellSummary> cell_summaries(Database& db,
                                                  const std::vector<std::string>& cells) {
  std::map<std::string, CellSummary> out;
  const std::vector<std::string> missing = read_stored(db, cells, out);
  if (missing.empty()) return out;
  SummaryReader reader(db);
  bool can_store = db.is_prepared_for_writing();
  for (std::size_t begin = 0; begin < missing.size(); begin += kCellsAtOnce) {
    const std::vector<std::string> some(
        missing.begin() + static_cast<std::ptrdiff_t>(begin),
        missing.begin() +
            static_cast<std::ptrdiff_t>(std::min(begin + kCellsAtOnce, missing.size())));
    if (can_store && db.in_transaction()) {
      compute_and_store(db, reader, some, out);
      continue;
    }
    if (can_store) {
      try {
        Transaction transaction(db);
        compute_and_store(db, reader, some, out);
        transaction.commit();
        continue;
      } catch (const Error& error) {  // a full disk, or another program that writes for long
        if (error.kind() == ErrorKind::kInput) throw;
        can_store = false;
      }
    }
    for (const std::string& cell : some) out[cell] = reader.read(cell);
  }
  return out;
}

std::vector<std::string> wrong_summaries(const Database& db) {
  std::vector<std::string> out;
  if (!has_compact_tables(db)) return out;
  SummaryReader reader(db);
  Statement stored = db.prepare(
      "SELECT c.key, s.json FROM cell_summary s JOIN cell c ON c.id = s.cell ORDER BY c.id");
  while (stored.next()) {
    const std::string cell = stored.text(0);
    // One of another version is computed again, whatever it says.
    if (summary_from(stored.view(1)) && stored.view(1) != to_text(reader.read(cell)))
      out.push_back(cell);
  }
  return out;
}

}  // namespace turnbench
