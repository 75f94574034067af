#include "harness/store/store.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "common/error.h"
#include "common/json.h"
#include "common/text.h"
#include "harness/store/dialogue_hashes.h"
#include "harness/store/packed_text.h"
#include "harness/store/record_keys.h"
#include "harness/store/record_writer.h"
#include "harness/store/schema.h"
#include "metrics/metric.h"

namespace turnbench {
namespace {

constexpr std::int64_t kMaxTurns = 10'000;  // far above real dialogues

/// The scores of cells, looked up in key order in parallel with the records, because a join seeks
/// every score, which takes twice as long.
class ScoreWalk {
 public:
  struct Score {
    double value;
    bool current;  ///< scored by this program's sources
  };

  ScoreWalk(const Database& db, const std::string& sources)
      : scores_(db.prepare(cell_rows_sql(db, "score",
                                         has_sources(db)
                                             ? "x.value, x.sources IS " + source_sql(db, "?4")
                                             : std::string("x.value, '' = ?4"),
                                         fmt::format("x.metric = {} AND x.postprocess = {}",
                                                     name_sql(db, "?2"), name_sql(db, "?3"))))),
        sources_(sources) {}

  void begin(const std::string& cell, const std::string& metric, const std::string& postprocess) {
    scores_.reset();
    scores_ << cell << metric << postprocess << sources_;
    more_ = scores_.next();
  }

  /// The score of a turn after those that were already looked up.
  std::optional<Score> find(std::string_view dialogue, std::int64_t turn) {
    for (; more_; more_ = scores_.next()) {
      const int order = scores_.view(0).compare(dialogue);
      if (order > 0) break;
      if (order < 0) continue;
      const std::int64_t scored = scores_.integer(1);
      if (scored == turn) return Score{scores_.real(2), scores_.integer(3) != 0};
      if (scored > turn) break;
    }
    return std::nullopt;
  }

 private:
  Statement scores_;
  const std::string& sources_;
  bool more_ = false;
};

}  // namespace

Record::Status parse_status(std::string_view name) {
  return name == "ok"              ? Record::Status::kOk
         : name == "no_value"      ? Record::Status::kNoValue
         : name == "out_of_memory" ? Record::Status::kOutOfMemory
                                   : Record::Status::kError;
}

std::string_view name_of(Record::Status status) {
  switch (status) {
    case Record::Status::kOk:
      return "ok";
    case Record::Status::kError:
      return "error";
    case Record::Status::kOutOfMemory:
      return "out_of_memory";
    case Record::Status::kNoValue:
      return "no_value";
  }
  return "error";
}

Store::Store(std::unique_ptr<Database> db) : db_(std::move(db)) {}

Store::~Store() = default;

Store::Store(Store&& other) noexcept = default;

Store Store::create(const std::filesystem::path& path) {
  auto db = std::make_unique<Database>(path, Database::Mode::kCreate);
  prepare_schema(*db);
  return Store(std::move(db));
}

Store Store::open(const std::filesystem::path& path) {
  auto db = std::make_unique<Database>(path, Database::Mode::kReadOnly);
  if (is_new(*db)) {
    db = db->copy_in_memory();
    prepare_schema(*db);
  }
  check_schema(*db);
  return Store(std::move(db));
}

Store Store::open_snapshot(const std::filesystem::path& path) {
  Store out = open(path);
  out.db_->execute("BEGIN");
  out.db_->execute(
      "SELECT count(*) FROM sqlite_master");  // a transaction begins when it first reads
  return out;
}

bool Store::is_writable(const std::filesystem::path& path) {
  std::optional<Database> db;
  try {
    db.emplace(path, Database::Mode::kReadWrite);
  } catch (const Error&) {
    return false;
  }
  return db->can_write();
}

Store Store::copy_in_memory() const {
  auto db = db_->copy_in_memory();
  prepare_schema(*db);
  return Store(std::move(db));
}

Store Store::open_to_write(const std::filesystem::path& path) {
  auto db = std::make_unique<Database>(path, Database::Mode::kReadWrite);
  check_schema(*db);
  prepare_schema(*db);
  return Store(std::move(db));
}

std::vector<std::string> Store::experiments() const {
  std::vector<std::string> out;
  Statement s = db_->prepare("SELECT name, max(ordinal) FROM experiment GROUP BY name ORDER BY 2");
  while (s.next()) out.push_back(s.text(0));
  return out;
}

std::string Store::column_of(const std::string& experiment, const std::string& column) const {
  Statement s = db_->prepare("SELECT " + column +
                             " FROM experiment WHERE name = ?1 ORDER BY ordinal DESC LIMIT 1");
  s << experiment;
  if (!s.next()) {
    throw input_error("{}: found no experiment \"{}\", expected one of: {}", path(),
                      printable(experiment), join(experiments(), ", "));
  }
  return s.text(0);
}

std::string Store::manifest(const std::string& experiment) const {
  return column_of(experiment, "manifest");
}
std::string Store::directory(const std::string& experiment) const {
  return column_of(experiment, "directory");
}

std::string Store::published(const std::string& experiment) const {
  return column_of(experiment, "published");
}

std::vector<Cell> Store::cells(const std::string& experiment) const {
  std::vector<Cell> out;
  Statement s = db_->prepare(
      fmt::format("SELECT e.model, e.dataset, e.method, {} FROM experiment_cell e "
                  "JOIN cell c ON c.key = e.cell JOIN protocol p ON p.id = c.protocol "
                  "WHERE e.experiment = ?1 AND e.manifest_hash = {} ORDER BY e.ordinal",
                  kCellColumnsSql, kLatestManifestSql));
  s << experiment;
  while (s.next()) {
    Cell cell = read_cell(s, 3);
    cell.model = s.text(0);
    cell.dataset = s.text(1);
    cell.method = s.text(2);
    out.push_back(std::move(cell));
  }
  return out;
}

std::map<std::string, int> Store::turn_counts(const std::string& dataset_hash) const {
  std::map<std::string, int> out;
  Statement s = db_->prepare("SELECT id, turns FROM dialogue WHERE dataset = ?1");
  s << dataset_hash;
  while (s.next()) out[s.text(0)] = static_cast<int>(s.integer(1));
  return out;
}

std::map<std::string, std::vector<std::string>> Store::text_hashes(
    const std::string& dataset_hash) const {
  std::map<std::string, std::vector<std::string>> out;
  Statement s = db_->prepare(fmt::format("SELECT id, {} FROM dialogue WHERE dataset = ?1",
                                         has_dialogue_hashes(*db_) ? "texts" : "''"));
  s << dataset_hash;
  while (s.next()) {
    std::vector<std::string>& hashes = out[s.text(0)];
    if (!s.view(1).empty()) hashes = split(s.view(1), " ");
  }
  return out;
}

std::map<std::string, std::string> Store::content_hashes(const std::string& dataset_hash) const {
  std::map<std::string, std::string> out;
  const bool has_hashes = has_dialogue_hashes(*db_);
  Statement s = db_->prepare(fmt::format("SELECT id, {} FROM dialogue WHERE dataset = ?1",
                                         has_hashes ? "content" : "json"));
  s << dataset_hash;
  while (s.next()) out[s.text(0)] = has_hashes ? s.text(1) : hashes_of(unpacked_text(s, 1)).content;
  return out;
}

std::map<std::pair<std::string, std::string>, int> Store::stored_turn_counts(
    const std::string& experiment) const {
  std::map<std::pair<std::string, std::string>, int> out;
  Statement s = db_->prepare(fmt::format("SELECT dialogue, count(*) FROM ({}) GROUP BY dialogue",
                                         cell_rows_sql(*db_, "record", "x.stopped")));
  for (const std::string& cell : cell_keys(*db_, experiment)) {
    s << cell;
    while (s.next()) out[{cell, s.text(0)}] = static_cast<int>(s.integer(1));
    s.reset();
  }
  return out;
}

void Store::for_each_turn(const std::string& experiment, const ScoreChoice& choice,
                          const std::function<void(const StoredTurn&)>& visit) const {
  std::vector<std::array<std::string, 4>> cells;  // key, metric, postprocess, dataset
  Statement all = db_->prepare(
      fmt::format("SELECT c.key, iif(?2 = '', c.metric, ?2), iif(?3 = '', c.postprocess, ?3), "
                  "c.dataset FROM {} e JOIN cell c ON c.key = e.cell ORDER BY e.ordinal",
                  kCellsSql));
  all << experiment << choice.metric << choice.postprocess;
  while (all.next()) cells.push_back({all.text(0), all.text(1), all.text(2), all.text(3)});
  Statement records =
      db_->prepare(cell_rows_sql(*db_, "record",
                                 "x.status, x.prompt_tokens, x.truncated_tokens, x.environment, "
                                 "x.error"));
  const StoredTexts environments = StoredTexts::environments(*db_);
  std::string error;
  const SourceHashes now = source_state().hashes;
  const auto metrics = now.find("metrics");
  const std::string sources = metrics == now.end() ? "" : metrics->second;
  ScoreWalk scores(*db_, sources);
  const bool own = choice.metric.empty() && choice.postprocess.empty();
  for (const auto& [cell, metric, postprocess, dataset] : cells) {
    // A metric that compares answers with references.
    const bool compares = known_metric(metric) != nullptr;
    scores.begin(cell, metric, postprocess);
    records << cell;
    while (records.next()) {
      const std::int64_t turn = records.integer(1);
      StoredTurn out{cell, records.view(0), environments.of(records, 5)};
      if (turn < 0 || turn > kMaxTurns) {
        throw input_error("{}: found the turn {} of dialogue {}, expected 0 to {}", path(), turn,
                          printable(out.dialogue), kMaxTurns);
      }
      out.turn = static_cast<int>(turn);
      out.status = parse_status(records.view(2));
      out.prompt_tokens = static_cast<int>(records.integer(3));
      out.truncated_tokens = static_cast<int>(records.integer(4));
      if (out.status == Record::Status::kOk) {
        auto score = scores.find(out.dialogue, turn);
        if (compares && (!score || !score->current)) {
          const std::vector<bool>& referenced = referenced_turns(dataset, out.dialogue);
          const auto at = static_cast<std::size_t>(turn);
          out.lacks_reference = at < referenced.size() && !referenced[at];
        }
        if (out.lacks_reference) score.reset();
        if (!score && own && !out.lacks_reference) {
          throw input_error("{}: found no score of dialogue {}, turn {}, expected one", path(),
                            printable(out.dialogue), turn + 1);
        }
        if (!score) out.status = Record::Status::kNoValue;
        if (score) out.score = score->value;
      } else {
        error = unpacked_text(records, 6);
        out.error = error;
      }
      visit(out);
    }
    records.reset();
  }
}

const std::vector<bool>& Store::referenced_turns(const std::string& dataset,
                                                 std::string_view dialogue) const {
  const auto [known, is_new] =
      known_references_.try_emplace(std::pair(dataset, std::string(dialogue)));
  if (!is_new) return known->second;
  Statement s = db_->prepare("SELECT json FROM dialogue WHERE dataset = ? AND id = ?");
  s << dataset << dialogue;
  if (!s.next()) return known->second;
  const Json json = Json::parse(unpacked_text(s, 0), nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || !json.contains("turns")) return known->second;
  for (const Json& turn : json["turns"]) {
    std::vector<std::string> references;
    const bool listed = turn.is_object() && turn.contains("references");
    for (const Json& reference : listed ? turn["references"] : Json::array()) {
      if (reference.is_string()) references.push_back(reference.get<std::string>());
    }
    known->second.push_back(has_reference(references));
  }
  return known->second;
}

std::vector<bool> Store::turns_with_references(const std::string& dataset_hash) const {
  std::vector<bool> out;
  for (const auto& [dialogue, turns] : turn_counts(dataset_hash)) {
    const std::vector<bool>& own = referenced_turns(dataset_hash, dialogue);
    out.resize(std::max(out.size(), own.size()));
    for (std::size_t turn = 0; turn < own.size(); ++turn) out[turn] = out[turn] || own[turn];
  }
  return out;
}

std::vector<ScoredTurn> Store::scores(const std::string& experiment,
                                      const ScoreChoice& choice) const {
  std::vector<ScoredTurn> out;
  for_each_turn(experiment, choice, [&](const StoredTurn& t) {
    out.push_back({std::string(t.cell), std::string(t.dialogue), t.turn, t.status, t.score});
  });
  return out;
}

std::vector<Store::Failure> Store::failures(const std::string& experiment) const {
  std::vector<Failure> out;
  // An index has the failed records, which are few.
  constexpr const char* kFailed =
      "SELECT c.key, d.id, x.error, x.id & {1} FROM record_data x JOIN cell c ON c.id = x.id >> "
      "{2} "
      "JOIN dialogue d ON d.dataset = c.dataset AND d.number = (x.id >> {3}) & {4} "
      "JOIN {0} e ON e.cell = c.key WHERE x.status NOT IN ('ok', 'no_value') "
      "ORDER BY e.ordinal, d.id, x.id";
  constexpr const char* kFailedOfOlder =
      "SELECT r.cell, r.dialogue, r.error, r.turn FROM record r JOIN {0} e ON e.cell = r.cell "
      "WHERE r.status NOT IN ('ok', 'no_value') ORDER BY e.ordinal, r.dialogue, r.turn";
  Statement s = db_->prepare(
      fmt::format(fmt::runtime(has_compact_tables(*db_) ? kFailed : kFailedOfOlder), kCellsSql,
                  kMostTurns - 1, kDialogueBits + kTurnBits, kTurnBits, kMostDialogues - 1));
  s << experiment;
  while (s.next())
    out.push_back({s.text(0), s.text(1), unpacked_text(s, 2), static_cast<int>(s.integer(3))});
  return out;
}

std::map<std::string, std::map<std::string, double>> Store::mean_counters(
    const std::string& experiment, const std::vector<std::string>& counters) const {
  std::map<std::string, std::map<std::string, double>> out;
  for (const std::string& name : counters) out[name];
  if (counters.empty()) return out;
  for (const auto& [cell, summary] : summaries(experiment)) {
    for (const std::string& name : counters) {
      const auto mean = summary.counters.find(name);
      if (mean != summary.counters.end()) out[name][cell] = mean->second.value();
    }
  }
  return out;
}

std::map<std::string, CellSummary> Store::summaries(const std::string& experiment) const {
  return cell_summaries(*db_, cell_keys(*db_, experiment));
}

std::map<std::string, std::size_t> Store::dialogue_counts() const {
  std::map<std::string, std::size_t> out;
  Statement s = db_->prepare("SELECT dataset, count(*) FROM dialogue GROUP BY dataset");
  while (s.next()) out[s.text(0)] = static_cast<std::size_t>(s.integer(1));
  return out;
}

std::vector<ScoredTurn> Store::values(const std::string& experiment,
                                      const std::string& name) const {
  std::vector<ScoredTurn> out;
  const std::vector<std::string> cells = cell_keys(*db_, experiment);
  for (const char* table : {"counter", "timing"}) {
    Statement s =
        db_->prepare(cell_rows_sql(*db_, table, "x.value", "x.name = " + name_sql(*db_, "?2")));
    for (const std::string& cell : cells) {
      s << cell << name;
      while (s.next()) {
        out.push_back(
            {cell, s.text(0), static_cast<int>(s.integer(1)), Record::Status::kOk, s.real(2)});
      }
      s.reset();
    }
  }
  return out;
}

std::vector<std::string> Store::environments(const std::set<std::string>& ids) const {
  std::vector<std::string> out;
  Statement s = db_->prepare("SELECT json FROM environment WHERE id = ?");
  for (const std::string& id : ids) {
    s << id;
    if (s.next()) out.push_back(s.text(0));
    s.reset();
  }
  return out;
}

}  // namespace turnbench
