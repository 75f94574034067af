#include "harness/store/store.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <tuple>

#include "common/error.h"
#include "common/file.h"
#include "common/json.h"
#include "common/mean.h"
#include "common/text.h"
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
      : scores_(
            db.prepare(fmt::format("SELECT dialogue, turn, value, {} FROM score WHERE cell = ? AND "
                                   "metric = ? AND postprocess = ? ORDER BY dialogue, turn",
                                   has_sources(db) ? "sources" : "''"))),
        sources_(sources) {}

  void begin(const std::string& cell, const std::string& metric, const std::string& postprocess) {
    scores_.reset();
    scores_ << cell << metric << postprocess;
    more_ = scores_.next();
  }

  /// The score of a turn after those that were already looked up.
  std::optional<Score> find(std::string_view dialogue, std::int64_t turn) {
    for (; more_; more_ = scores_.next()) {
      const int order = scores_.view(0).compare(dialogue);
      if (order > 0) break;
      if (order < 0) continue;
      const std::int64_t scored = scores_.integer(1);
      if (scored == turn) return Score{scores_.real(2), scores_.view(3) == sources_};
      if (scored > turn) break;
    }
    return std::nullopt;
  }

 private:
  Statement scores_;
  const std::string& sources_;
  bool more_ = false;
};

Record::Status parse_status(std::string_view text) {
  return text == "ok"              ? Record::Status::kOk
         : text == "no_value"      ? Record::Status::kNoValue
         : text == "out_of_memory" ? Record::Status::kOutOfMemory
                                   : Record::Status::kError;
}

/// Writes the data to which cells refer: models, datasets and their dialogues.
void write_inputs(Database& db, const StoredExperiment& experiment,
                  const std::string& dataset_sources) {
  for (const auto& [hash, description] : experiment.models) {
    (db.prepare("INSERT OR IGNORE INTO model VALUES (?,?)") << hash << description).run();
  }
  for (const auto& [hash, description] : experiment.datasets) {
    (db.prepare("INSERT INTO dataset (hash, description, sources) VALUES (?,?,?) "
                "ON CONFLICT DO UPDATE SET sources = excluded.sources")
     << hash << description << dataset_sources)
        .run();
  }
  Statement dialogue = db.prepare("INSERT OR IGNORE INTO dialogue VALUES (?,?,?,?)");
  for (const StoredDialogue& d : experiment.dialogues) {
    (dialogue << d.dataset_hash << d.id << d.turns << d.json).run();
  }
}

/// Writes the manifest under its name, as the one that was planned last.
void write_manifest(Database& db, const StoredExperiment& experiment, const std::string& hash) {
  Statement newest =
      db.prepare("SELECT manifest_hash, ordinal FROM experiment ORDER BY ordinal DESC LIMIT 1");
  const bool any = newest.next();
  const std::int64_t ordinal = !any ? 0 : newest.integer(1) + (newest.text(0) == hash ? 0 : 1);
  (db.prepare("INSERT INTO experiment VALUES (?,?,?,?,?,?,?) "
              "ON CONFLICT DO UPDATE SET ordinal = excluded.ordinal, title = excluded.title, "
              "directory = excluded.directory, published = excluded.published")
   << experiment.name << hash << experiment.title << experiment.manifest << experiment.directory
   << experiment.published << ordinal)
      .run();
}

/// Writes the cells and their places in the tables; imported cells follow the existing ones.
void write_cells(Database& db, const StoredExperiment& experiment, const std::string& hash,
                 bool imported) {
  Statement protocol = db.prepare("INSERT OR IGNORE INTO protocol VALUES (?,?)");
  Statement method = db.prepare("INSERT OR IGNORE INTO method VALUES (?)");
  Statement cell = db.prepare("INSERT OR IGNORE INTO cell VALUES (?,?,?,?,?,?,?,?,?,?,?)");
  Statement entry = db.prepare("INSERT OR REPLACE INTO experiment_cell VALUES (?,?,?,?,?,?,?)");
  int position = 0;
  std::set<std::pair<std::string, std::string>> listed;  // cells, by their datasets' labels
  if (imported) {
    position = kFirstImportedOrdinal;
    Statement there = db.prepare(
        "SELECT cell, dataset, ordinal FROM experiment_cell "
        "WHERE experiment = ? AND manifest_hash = ?");
    there << experiment.name << hash;
    while (there.next()) {
      listed.emplace(there.text(0), there.text(1));
      position = std::max(position, static_cast<int>(there.integer(2)) + 1);
    }
  }
  for (const Cell& c : experiment.cells) {
    (protocol << c.protocol << c.protocol_text).run();
    (method << c.method_canonical).run();
    (cell << c.key << c.model_hash << c.dataset_hash << c.task << c.position << c.method_canonical
          << c.history << c.answers << c.metric << c.postprocess << c.protocol)
        .run();
    if (listed.contains({c.key, c.dataset})) continue;
    (entry << experiment.name << hash << position++ << c.key << c.model << c.dataset << c.method)
        .run();
  }
}

}  // namespace

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

bool Store::is_writable(const std::filesystem::path& path) {
  try {
    Database db(path, Database::Mode::kReadWrite);
    const Transaction transaction(db);
    return true;
  } catch (const Error&) {
    return false;
  }
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

void Store::add_experiment(const StoredExperiment& experiment) {
  write_experiment(experiment, false);
}

void Store::add_imported(const StoredExperiment& experiment) {
  write_experiment(experiment, true);
}

void Store::write_experiment(const StoredExperiment& experiment, bool imported) {
  Transaction transaction(*db_);
  environment_ = hash_text(experiment.environment);
  sources_ = sources_of(experiment.environment);
  (db_->prepare("INSERT OR IGNORE INTO environment VALUES (?,?)")
   << environment_ << experiment.environment)
      .run();
  write_inputs(*db_, experiment, sources_["datasets"]);
  const std::string hash = hash_text(experiment.manifest);
  write_manifest(*db_, experiment, hash);
  write_cells(*db_, experiment, hash, imported);
  transaction.commit();
}

void Store::add_records(const std::vector<Record>& records, const std::vector<ScoreValue>& scores) {
  Transaction transaction(*db_);
  Statement older = db_->prepare(
      "SELECT DISTINCT r.environment, c.method FROM record r JOIN cell c ON c.key = r.cell "
      "WHERE r.cell = ? AND r.dialogue = ? AND r.environment <> ?");
  Statement forget = db_->prepare("DELETE FROM record WHERE cell = ? AND dialogue = ?");
  Statement record = db_->prepare("INSERT OR IGNORE INTO record VALUES (?,?,?,?,?,?,?,?,?,?,?,?)");
  Statement score = db_->prepare("INSERT OR IGNORE INTO score VALUES (?,?,?,?,?,?,?)");
  Statement counter = db_->prepare("INSERT OR IGNORE INTO counter VALUES (?,?,?,?,?)");
  Statement timing = db_->prepare("INSERT OR IGNORE INTO timing VALUES (?,?,?,?,?)");
  Statement ledger = db_->prepare("INSERT OR IGNORE INTO ledger VALUES (?,?,?,?)");
  std::set<std::pair<std::string_view, std::string_view>> seen;
  std::set<std::tuple<std::string_view, std::string_view, int>> own,
      known;  // known: stored by another run
  for (const Record& r : records) {
    if (seen.emplace(r.cell, r.dialogue).second) {
      bool stale = false;
      older << r.cell << r.dialogue << environment_;
      while (older.next())
        stale |= !changed_parts(older.text(1), sources_in(older.text(0)), sources_).empty();
      older.reset();
      if (stale) (forget << r.cell << r.dialogue).run();
    }
    (record << r.cell << r.dialogue << r.turn << name_of(r.status) << r.error << r.prompt_hash
            << r.prompt_tokens << r.truncated_tokens << r.answer << Json(r.answer_tokens).dump()
            << (r.stopped ? 1 : 0) << environment_)
        .run();
    if (db_->changes() == 0) {
      if (!own.contains({r.cell, r.dialogue, r.turn})) known.emplace(r.cell, r.dialogue, r.turn);
      continue;
    }
    own.emplace(r.cell, r.dialogue, r.turn);
    for (const auto& [name, value] : r.counters)
      (counter << r.cell << r.dialogue << r.turn << name << value).run();
    for (const auto& [name, value] : r.timings)
      (timing << r.cell << r.dialogue << r.turn << name << value).run();
    if (!r.ledger.empty())
      (ledger << r.cell << r.dialogue << r.turn << Statement::Blob{r.ledger}).run();
  }
  for (const ScoreValue& s : scores) {
    if (known.contains({s.cell, s.dialogue, s.turn})) continue;
    (score << s.cell << s.dialogue << s.turn << s.metric << s.postprocess << s.value
           << sources_["metrics"])
        .run();
  }
  transaction.commit();
}

int Store::forget_failed(const std::string& experiment) {
  Transaction transaction(*db_);
  const std::size_t count = failures(experiment).size();
  // All turns of a dialogue are replaced, because later turns depend on earlier ones.
  (db_->prepare(fmt::format(
       "DELETE FROM record WHERE (cell, dialogue) IN (SELECT r.cell, r.dialogue FROM record r "
       "JOIN {} e ON e.cell = r.cell WHERE r.status NOT IN ('ok', 'no_value'))",
       kCellsSql))
   << experiment)
      .run();
  transaction.commit();
  return static_cast<int>(count);
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

std::map<std::pair<std::string, std::string>, int> Store::stored_turn_counts(
    const std::string& experiment) const {
  std::map<std::pair<std::string, std::string>, int> out;
  Statement s = db_->prepare(
      fmt::format("SELECT r.cell, r.dialogue, count(*) FROM record r JOIN {} e ON e.cell = r.cell "
                  "GROUP BY r.cell, r.dialogue",
                  kCellsSql));
  s << experiment;
  while (s.next()) out[{s.text(0), s.text(1)}] = static_cast<int>(s.integer(2));
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
  Statement records = db_->prepare(
      "SELECT dialogue, turn, status, prompt_tokens, truncated_tokens, environment, error "
      "FROM record WHERE cell = ? ORDER BY dialogue, turn");
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
      StoredTurn out{cell, records.view(0), records.view(5), records.view(6)};
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
  const Json json = Json::parse(s.view(0), nullptr, /*allow_exceptions=*/false);
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
  Statement s =
      db_->prepare(fmt::format("SELECT r.cell, r.dialogue, r.error, r.turn FROM record r "
                               "JOIN {} e ON e.cell = r.cell "
                               "WHERE r.status NOT IN ('ok', 'no_value') "
                               "ORDER BY e.ordinal, r.dialogue, r.turn",
                               kCellsSql));
  s << experiment;
  while (s.next()) out.push_back({s.text(0), s.text(1), s.text(2), static_cast<int>(s.integer(3))});
  return out;
}

std::map<std::string, std::map<std::string, double>> Store::mean_counters(
    const std::string& experiment, const std::vector<std::string>& counters) const {
  std::map<std::string, std::map<std::string, double>> out;
  for (const std::string& name : counters) out[name];
  std::vector<std::string> cells;
  Statement all = db_->prepare(fmt::format("SELECT cell FROM {}", kCellsSql));
  all << experiment;
  while (all.next()) cells.push_back(all.text(0));
  // One scan of the table for all counters takes as long as for one.
  Statement s = db_->prepare("SELECT name, value FROM counter WHERE cell = ?");
  for (const std::string& cell : cells) {
    std::vector<Mean> means(counters.size());
    s << cell;
    while (s.next()) {
      const auto counter = std::find(counters.begin(), counters.end(), s.view(0));
      if (counter != counters.end())
        means[static_cast<std::size_t>(counter - counters.begin())].add(s.real(1));
    }
    s.reset();
    for (std::size_t i = 0; i < means.size(); ++i) {
      if (means[i].count > 0) out[counters[i]][cell] = means[i].value();
    }
  }
  return out;
}

std::vector<ScoredTurn> Store::values(const std::string& experiment,
                                      const std::string& name) const {
  std::vector<ScoredTurn> out;
  for (const char* table : {"counter", "timing"}) {
    Statement s = db_->prepare(fmt::format(
        "SELECT n.cell, n.dialogue, n.turn, n.value FROM {} n JOIN {} e ON e.cell = n.cell "
        "WHERE n.name = ?2",
        table, kCellsSql));
    s << experiment << name;
    while (s.next()) {
      out.push_back(
          {s.text(0), s.text(1), static_cast<int>(s.integer(2)), Record::Status::kOk, s.real(3)});
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
