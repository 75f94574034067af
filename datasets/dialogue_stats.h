#pragma once

#include <functional>
#include <span>
#include <string_view>

#include "datasets/dialogue.h"

namespace turnbench {

/// Sizes of a dataset.  Counts instructions, contexts and questions, not chat markup or answers.
struct DialogueStats {
  std::size_t dialogues = 0;
  double mean_turns = 0;
  double mean_tokens = 0;       ///< per dialogue
  double mean_turn_tokens = 0;  ///< per turn
};

/// `count_tokens` is called for each text separately; the results are added.
DialogueStats dialogue_stats(std::span<const Dialogue> dialogues,
                             const std::function<std::size_t(std::string_view)>& count_tokens);

/// One row of LoopServe's table 3.
struct PublishedDataset {
  std::string_view name;  ///< as in the catalog, e.g. mt-hotpotqa
  /// "|D|".  The paper's cell for TREC and SAMSum together is 199: TREC's scores in table 4 equal,
  /// up to rounding, means over two turns of 199 answers that are right or wrong.
  std::size_t dialogues = 0;
  int turns = 0;
  /// "Avg Token".  The paper does not name the tokenizer, or say whether the mean is per dialogue
  /// or per turn; the numbers are near the mean size of one LongBench record.
  double mean_tokens = 0;
  /// The paper's name.  For SAMSum the paper names accuracy, but its answers are not labels and its
  /// scores in table 4 are not means of 0 and 1: the catalog uses Rouge-L.
  std::string_view metric;
};

std::span<const PublishedDataset> published_datasets();

/// The row with that name, or null.
const PublishedDataset* find_published_dataset(std::string_view name);

}  // namespace turnbench
