#pragma once

#include <cstddef>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "datasets/dialogue.h"
#include "harness/experiment/locations.h"
#include "harness/experiment/manifest.h"
#include "harness/run/conversation.h"
#include "harness/run/prompt.h"
#include "harness/store/store.h"
#include "inference/engine/model.h"
#include "metrics/metric.h"
#include "metrics/segmenter.h"
#include "text/tokenizer/chat_template.h"
#include "text/tokenizer/tokenizer.h"

namespace turnbench {

/// A model whose files are open but whose weights are not loaded.
struct ResolvedModel {
  ModelEntry entry;
  Checkpoint checkpoint;
  Tokenizer tokenizer;
  ChatTemplate chat_template;
  DType dtype;
  std::string hash;  ///< of the checkpoint's content
};

struct ResolvedDataset {
  DatasetEntry entry;
  std::string task, metric, postprocess, hash;
  std::size_t size = 0;             ///< dialogues of the whole dataset, regardless of --limit
  std::vector<Position> positions;  ///< positions at which its questions are asked
  std::vector<Dialogue> dialogues;  ///< the dialogues to run: the first ones with --limit
};

/// A manifest with everything that it refers to: models opened but not loaded, dialogues built.
struct Experiment {
  Manifest manifest;
  std::string published;  ///< CSV text of the published numbers, or empty
  std::deque<ResolvedModel> models;
  std::deque<ResolvedDataset> datasets;
  /// For metrics of Chinese words; null if the experiment has none.
  std::shared_ptr<const Segmenter> segmenter;

  Decoding decoding(const ResolvedModel& model) const;
  PromptRenderer renderer(const ResolvedModel& model) const;
};

/// Opens the models and builds the dialogues of a manifest.  `limit` > 0: at most this many
/// dialogues of each dataset.
/// @throws Error (input) for files that do not exist or cannot be read.
Experiment resolve_experiment(const Manifest& manifest, const Locations& locations,
                              std::size_t limit);

/// The experiment in the store's form, without cells and environment.
StoredExperiment stored_experiment(const Experiment& experiment);

/// Opens a model's files and tokenizer.  `folder`: the manifest's directory.
ResolvedModel resolve_model(const ModelEntry& entry, const Locations& locations,
                            const std::filesystem::path& folder);

/// The default position of a dataset's questions.
/// @throws Error (input) if the questions have several positions; the message names the dataset.
Position own_position(const std::vector<Dialogue>& dialogues, const std::string& dataset);

/// Builds a dataset's dialogues.  `limit` > 0: at most this many.  The hash covers the whole
/// dataset.
/// @throws Error (input) also if the manifest gives no positions and the dataset has several.
ResolvedDataset resolve_dataset(const DatasetEntry& entry, const Manifest& manifest,
                                const Locations& locations, std::size_t limit);

/// Loads the segmenter for a metric of Chinese words from jieba's folder: `--data jieba=DIR`, or
/// jieba below $TURNBENCH_DATA.  Null for other metrics.
std::shared_ptr<const Segmenter> open_segmenter(const Metric& metric, const Locations& locations);

}  // namespace turnbench
