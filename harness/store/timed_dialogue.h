#pragma once

#include <cstddef>
#include <string>

namespace turnbench {

/// What one dialogue took in one cell, all its turns together.
struct TimedDialogue {
  std::string model_hash = {}, method = {}, dataset_hash = {};  ///< of the cell; method: canonical
  bool isolated = false;                                        ///< the cell ran by itself
  int prompt_tokens = 0;                                        ///< of the last turn's prompt
  std::size_t answers = 0, cut_answers = 0;                     ///< cut: by their length limit
  std::size_t answer_tokens = 0;                                ///< of all answers
  std::size_t ended_tokens = 0;                                 ///< of those that were not cut
  /// Its shares of what was computed together with other cells.
  double prefill_seconds = 0, decode_seconds = 0;
};

}  // namespace turnbench
