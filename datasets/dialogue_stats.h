#pragma once

#include <functional>
#include <span>
#include <string_view>

#include "datasets/dialogue.h"

namespace turnbench {

/// Sizes of a dataset: what a dialogue says itself (instructions, contexts, questions), without
/// chat markup and answers.
struct DialogueStats {
  std::size_t dialogues = 0;
  double mean_turns = 0;
  double mean_tokens = 0;       ///< a dialogue
  double mean_turn_tokens = 0;  ///< a turn
};

/// `count_tokens` is called for each text on its own; its results are added up.
DialogueStats dialogue_stats(std::span<const Dialogue> dialogues,
                             const std::function<std::size_t(std::string_view)>& count_tokens);

/// One row of LoopServe's table 3.
struct PublishedDataset {
  std::string_view name;  ///< as in the catalog, e.g. mt-hotpotqa
  /// "|D|".  TREC and SAMSum share one cell, 199: TREC's scores in table 4 are, up to rounding,
  /// means of two turns of 199 answers that are right or wrong.
  std::size_t dialogues = 0;
  int turns = 0;
  /// "Avg Token".  The paper names neither the tokenizer nor whether a dialogue or a turn is meant;
  /// the numbers are near the mean size of one LongBench record.
  double mean_tokens = 0;
  /// As the paper names it.  SAMSum has no labels to be right or wrong about, and its scores in
  /// table 4 are no such means: the catalog scores it by Rouge-L, as summaries.
  std::string_view metric;
};

std::span<const PublishedDataset> published_datasets();

/// The row of that name, or null.
const PublishedDataset* find_published_dataset(std::string_view name);

}  // namespace turnbench
