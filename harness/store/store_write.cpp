// Writes experiments and records.

#include <algorithm>
#include <memory>
#include <set>
#include <utility>

#include "common/file.h"
#include "harness/store/dialogue_writer.h"
#include "harness/store/record_writer.h"
#include "harness/store/schema.h"
#include "harness/store/store.h"

namespace turnbench {
namespace {

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
  DialogueWriter dialogues(db);
  for (const StoredDialogue& d : experiment.dialogues)
    dialogues.add(d.dataset_hash, d.id, d.turns, d.json);
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
  Statement cell = db.prepare(
      "INSERT OR IGNORE INTO cell (key, model, dataset, task, position, method, history, answers, "
      "metric, postprocess, protocol) VALUES (?,?,?,?,?,?,?,?,?,?,?)");
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
  (db_->prepare("INSERT OR IGNORE INTO environment (id, json) VALUES (?,?)")
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
  // The statements end before a transaction that fails.
  std::unique_ptr<RecordWriter> writer =
      writer_ ? std::move(writer_) : std::make_unique<RecordWriter>(*db_);
  writer->write(records, scores,
                {environment_, sources_["metrics"],
                 [&](const std::string& method, const std::string& environment) {
                   return !changed_parts(method, sources_in(environment), sources_).empty();
                 }});
  transaction.commit();
  writer_ = std::move(writer);
}

int Store::forget_failed(const std::string& experiment) {
  Transaction transaction(*db_);
  const std::vector<Failure> failed = failures(experiment);
  forget_dialogues(failed);
  transaction.commit();
  return static_cast<int>(failed.size());
}

// All turns of a dialogue are replaced, because later turns depend on earlier ones.
void Store::forget_dialogues(const std::vector<Failure>& failed) {
  RecordKeys keys(*db_);
  RecordRemover records(*db_);
  for (const Failure& f : failed) records.remove(keys.unit(f.cell, f.dialogue));
}

}  // namespace turnbench
