#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "harness/manifest.h"
#include "harness/probe_unit.h"
#include "harness/prompt.h"
#include "harness/store.h"
#include "harness/unit.h"
#include "inference/devices.h"
#include "inference/model.h"
#include "inference/tokenizer/chat_template.h"
#include "inference/tokenizer/tokenizer.h"
#include "metrics/metric.h"
#include "metrics/segmenter.h"

namespace turnbench {

/// Where models and data lie, as the command line or the environment says.
struct Locations {
  std::map<std::string, std::string> models;  ///< name -> directory (--model NAME=DIR)
  std::map<std::string, std::string> data;    ///< collection -> file or directory (--data NAME=DIR)
};

/// A model, ready but for its weights.
struct PlannedModel {
  ModelEntry entry;
  Checkpoint checkpoint;
  Tokenizer tokenizer;
  ChatTemplate chat_template;
  DType dtype;
  std::string hash;  ///< of the checkpoint's content
};

struct PlannedDataset {
  DatasetEntry entry;
  std::string task, metric, postprocess, hash;
  std::size_t size = 0;             ///< of the whole dataset, whatever --limit says
  std::vector<Dialogue> dialogues;  ///< the ones to run
};

/// Units that one model runs, in the order in which they are run.
struct Plan {
  Manifest manifest;
  std::string published;  ///< CSV text of the published numbers, or empty
  std::deque<PlannedModel> models;
  std::deque<PlannedDataset> datasets;
  std::vector<Cell> cells;  ///< of the tables: twice the same where two labels are of one content
  /// What metrics of Chinese words need; null if there are none.
  std::shared_ptr<const Segmenter> segmenter;
  /// One dialogue at one position: the index of its model, itself, and its cells.
  struct Unit {
    std::size_t model = 0, dataset = 0;
    std::shared_ptr<const Dialogue> dialogue;
    std::vector<UnitCell> cells;
  };
  std::vector<Unit> units;  ///< each pair of a cell and a dialogue once
  /// Dialogues at one position that the same probes look at: one, or all that are compared.
  struct Probing {
    std::size_t model = 0, dataset = 0;
    std::vector<std::shared_ptr<const Dialogue>> dialogues;
    std::vector<ProbeCell> cells;
    Answers answers = Answers::kOwn;
  };
  std::vector<Probing> probings;  ///< run after the units
  std::size_t unit_count() const { return units.size() + probings.size(); }
  /// The units of a model, in the order in which workers take them.
  std::vector<const Unit*> units_of(std::size_t model) const;
  /// The probings of a model, which workers take when no unit is left.
  std::vector<const Probing*> probings_of(std::size_t model) const;

  Decoding decoding(const PlannedModel& model) const;
  PromptRenderer renderer(const PlannedModel& model) const;
};

/// Where a dataset of a manifest lies: as the command line says, the manifest, or the environment.
/// Empty if none of them does, or if the dataset is read from no files.
std::string find_source(const DatasetEntry& entry, const Manifest& manifest,
                        const Locations& locations);

/// Builds a dataset's dialogues; `limit` > 0 bounds them, but not what the hash is made of.
PlannedDataset load_dataset(const DatasetEntry& entry, const Manifest& manifest,
                            const Locations& locations, std::size_t limit);

/// Whether a cell measures by a probe: it has no answers to score.
bool is_probe(const Cell& cell);

/// Whether its answers were made elsewhere.
bool is_imported(const Cell& cell);

/// A setting of a cell's method or probe, as it is stored with the cell: today's registry need not
/// know it.  "name" is the method's own; nothing if it has no such setting.
std::optional<std::string> setting_of(const Cell& cell, std::string_view name);

/// Hash of all that can move a cell's results: everything else in it must be set.
std::string cell_key(const Cell& cell);

/// Manifest -> cells -> work units.  Builds the dialogues and opens the models' files, but loads no
/// weights.  `limit` > 0 bounds the dialogues of each dataset.
Plan make_plan(const Manifest& manifest, const Locations& locations, std::size_t limit);

/// Drops what the store already holds: complete (cell, dialogue) pairs whose results are those of
/// this program's sources, and units without cells.  Writes nothing, but returns what the store is
/// to adopt for that.
std::vector<Store::Adoption> drop_done(Plan& plan, const Store& store);

/// What the store needs to know before the first record: experiment, cells, dialogues, machine.
Store::Plan stored_plan(const Plan& plan, const std::vector<Device>& devices = {Device{}});

/// The words that a metric of Chinese text needs: jieba's folder of `--data jieba=DIR`, or jieba
/// below $TURNBENCH_DATA; null for other metrics.
std::shared_ptr<const Segmenter> open_segmenter(const Metric& metric, const Locations& locations);

/// Opens a model's files and tokenizer: `path` as in ModelEntry.
PlannedModel open_model(const ModelEntry& entry, const Locations& locations);

/// The tokenizer of a checkpoint: the embedded one for `tiny`, the directory's otherwise.
Tokenizer open_tokenizer(const Checkpoint& checkpoint);
/// Whether there is one; random weights and bare checkpoints take token ids only.
bool has_tokenizer(const Checkpoint& checkpoint);

}  // namespace turnbench
