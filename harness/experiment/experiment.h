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
  std::vector<Position> positions;  ///< at which its questions are asked
  std::vector<Dialogue> dialogues;  ///< to be run: the first ones under --limit
};

/// A manifest with everything that it names: models opened but not loaded, dialogues built.
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

/// Opens the models and builds the dialogues of a manifest.  `limit` > 0: at most so many dialogues
/// of each dataset.
/// @throws Error (input) for what does not exist or cannot be read.
Experiment resolve_experiment(const Manifest& manifest, const Locations& locations,
                              std::size_t limit);

/// The experiment as the store keeps it, without cells and environment.
StoredExperiment stored_experiment(const Experiment& experiment);

/// Opens a model's files and tokenizer.  `folder`: of the manifest.
ResolvedModel resolve_model(const ModelEntry& entry, const Locations& locations,
                            const std::filesystem::path& folder);

/// Where the questions of a dataset stand if nothing else is asked for.
/// @throws Error (input) if they stand at several positions; the message names the dataset.
Position own_position(const std::vector<Dialogue>& dialogues, const std::string& dataset);

/// Builds a dataset's dialogues.  `limit` > 0: at most so many.  The hash covers all of them.
/// @throws Error (input) also where the manifest gives no positions and the dataset has several.
ResolvedDataset resolve_dataset(const DatasetEntry& entry, const Manifest& manifest,
                                const Locations& locations, std::size_t limit);

/// Loads the segmenter for a metric of Chinese words from jieba's folder: `--data jieba=DIR`, or
/// jieba below $TURNBENCH_DATA.  Null for other metrics.
std::shared_ptr<const Segmenter> open_segmenter(const Metric& metric, const Locations& locations);

}  // namespace turnbench
