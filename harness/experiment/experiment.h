#pragma once

#include <cstddef>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "datasets/dialogue.h"
#include "harness/experiment/locations.h"
#include "harness/experiment/manifest.h"
#include "harness/store/store.h"
#include "harness/unit/conversation.h"
#include "harness/unit/prompt.h"
#include "inference/model.h"
#include "inference/tokenizer/chat_template.h"
#include "inference/tokenizer/tokenizer.h"
#include "metrics/metric.h"
#include "metrics/segmenter.h"

namespace turnbench {

/// A model, ready but for its weights.
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
  std::size_t size = 0;             ///< of the whole dataset, whatever --limit says
  std::vector<Dialogue> dialogues;  ///< the ones to run
};

/// A manifest and what its names mean: models opened but not loaded, dialogues built.
struct Experiment {
  Manifest manifest;
  std::string published;  ///< CSV text of the published numbers, or empty
  std::deque<ResolvedModel> models;
  std::deque<ResolvedDataset> datasets;
  /// What metrics of Chinese words need; null if there are none.
  std::shared_ptr<const Segmenter> segmenter;

  Decoding decoding(const ResolvedModel& model) const;
  PromptRenderer renderer(const ResolvedModel& model) const;
};

/// Finds all that a manifest names.  `limit` > 0 bounds the dialogues of each dataset.
Experiment resolve(const Manifest& manifest, const Locations& locations, std::size_t limit);

/// What the store keeps of it; cells and environment are left to what is computed.
StoredExperiment stored_experiment(const Experiment& experiment);

/// Opens a model's files and tokenizer.
ResolvedModel resolve_model(const ModelEntry& entry, const Locations& locations);

/// Builds a dataset's dialogues; `limit` > 0 bounds them, but not what the hash is made of.
ResolvedDataset resolve_dataset(const DatasetEntry& entry, const Manifest& manifest,
                                const Locations& locations, std::size_t limit);

/// The words that a metric of Chinese text needs: jieba's folder of `--data jieba=DIR`, or jieba
/// below $TURNBENCH_DATA; null for other metrics.
std::shared_ptr<const Segmenter> open_segmenter(const Metric& metric, const Locations& locations);

}  // namespace turnbench
