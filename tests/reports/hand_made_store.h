#pragma once

// A store filled by hand: two datasets, two positions and three methods, with scores whose means
// can be computed on paper.

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "common/error.h"
#include "datasets/dialogue_io.h"
#include "harness/store/sqlite.h"
#include "harness/store/store.h"
#include "methods/method.h"
#include "tests/temporary_directory.h"

namespace turnbench::test {

constexpr const char* kManifest = R"({
  "name": "hand", "title": "By hand", "models": ["tiny"], "datasets": ["tiny-fact", "tiny-hop"],
  "positions": ["begin", "end"], "methods": ["full", "snapkv:budget=64", "streamingllm"],
  "tables": [
    {"title": "All", "rows": ["method"], "columns": ["position"], "difference_to": "full"},
    {"title": "Each", "rows": ["method"], "columns": ["dataset", "position"]},
    {"title": "Turns", "rows": ["turn"], "columns": ["method"], "difference_to": "full"}]})";

constexpr const char* kPublished = "method,dataset,position,value\nfull,tiny-fact,begin,60.5\n";

class HandMadeStore {
 public:
  explicit HandMadeStore(const std::string& manifest = kManifest,
                         const std::string& published = kPublished,
                         const std::vector<std::string>& methods = {"full", "snapkv:budget=64",
                                                                    "streamingllm"},
                         const std::string& card = "{}", bool shares_texts = false)
      : store_(Store::create(directory_.path("hand.db"))) {
    StoredExperiment experiment;
    experiment.name = "hand";
    experiment.title = "By hand";
    experiment.manifest = manifest;
    experiment.directory = "/";
    experiment.published = published;
    experiment.environment = environment_card();  // as if this program had computed the cells
    experiment.models = {{"model-hash", "a model"}};
    for (const char* dataset : {"tiny-fact", "tiny-hop"}) {
      experiment.datasets.emplace_back(dataset, "a dataset");
      for (const char* id : {"a", "b", "c", "d"}) {
        const Dialogue own = dialogue(shares_texts ? "tiny-fact" : dataset, id);
        experiment.dialogues.push_back({dataset, id, 2, to_json_line(own)});
      }
      for (const char* position : {"begin", "end"}) {
        for (const std::string& method : methods) {
          Cell c;
          c.key = key(dataset, position, method);
          c.model = "tiny";
          c.dataset = c.dataset_hash = dataset;
          c.task = "qa";
          c.position = position;
          c.method = method;
          c.method_canonical = canonical(method);
          c.history = "reprefill";
          c.answers = "own";
          c.metric = "qa_f1";
          c.postprocess = "none";
          c.model_hash = "model-hash";
          c.protocol = "card";
          c.protocol_text = card;
          experiment.cells.push_back(c);
        }
      }
    }
    store_.add_experiment(experiment);
  }

  /// A dialogue of two turns: "Question 1 of a?" with the reference "here".  Dialogues of the
  /// second dataset have another reference, too, because equal dialogues are one unit
  /// (`shares_texts`).
  static Dialogue dialogue(const std::string& dataset, const std::string& id) {
    Dialogue out;
    out.id = id;
    for (int turn : {1, 2}) {
      Turn& t = out.turns.emplace_back();
      t.question = "Question " + std::to_string(turn) + " of " + id + "?";
      t.references = {"here"};
      if (dataset == "tiny-hop") t.references.emplace_back("there");
    }
    return out;
  }

  /// The canonical form of a method in cells; for a label that is no method, the label.
  static std::string canonical(const std::string& method) {
    try {
      return Method::parse(method).canonical();
    } catch (const Error&) {
      return method;
    }
  }

  static std::string key(const std::string& dataset, const std::string& position,
                         const std::string& method) {
    return dataset + "/" + position + "/" + method;
  }

  /// A cell in addition to those of the manifest, as for imported predictions.
  void add_cell(const std::string& dataset, const std::string& position, const std::string& method,
                const std::string& history = "reprefill") {
    StoredExperiment experiment;
    experiment.name = "hand";
    experiment.environment = environment_card();
    experiment.manifest = store_.manifest("hand");
    experiment.published = store_.published("hand");
    Cell c = store_.cells("hand").front();
    c.key = key(dataset, position, method) + (history == "reprefill" ? "" : " " + history);
    c.dataset = c.dataset_hash = dataset;
    c.position = position;
    c.history = history;
    c.method = c.method_canonical = method;
    experiment.cells.push_back(c);
    store_.add_imported(experiment);
  }

  /// Scores of the two turns of a dialogue, the tokens kept, the seconds of a step, and the answer
  /// of both turns.
  void add(const std::string& cell, const std::string& dialogue, double first, double second,
           double kept = 100, double step = 0, const std::string& answer = "answer") {
    std::vector<Record> records;
    std::vector<ScoreValue> scores;
    for (int turn = 0; turn < 2; ++turn) {
      Record r;
      r.cell = cell;
      r.dialogue = dialogue;
      r.turn = turn;
      r.answer = answer;
      r.counters = {{"kv_tokens", kept}};
      if (step > 0) r.timings = {{"step", step}};
      records.push_back(r);
      scores.push_back({cell, dialogue, turn, "qa_f1", "none", turn == 0 ? first : second});
    }
    store_.add_records(records, scores);
  }
  void add_failure(const std::string& cell, const std::string& dialogue) {
    std::vector<Record> records;
    for (int turn = 0; turn < 2; ++turn) {
      Record r;
      r.cell = cell;
      r.dialogue = dialogue;
      r.turn = turn;
      r.status = Record::Status::kOutOfMemory;
      r.error = "needs <more> memory";
      records.push_back(r);
    }
    store_.add_records(records, {});
  }

  Store& store() { return store_; }

  void execute(const std::string& sql) {
    Database(directory_.path("hand.db"), Database::Mode::kReadWrite).execute(sql);
  }

 private:
  TemporaryDirectory directory_;
  Store store_;
};

}  // namespace turnbench::test
