#pragma once

#include <cstddef>
#include <string>

namespace turnbench {

/// Times and lengths of one dialogue in one cell, summed over its turns.
struct TimedDialogue {
  std::string model_hash = {}, method = {}, dataset_hash = {};  ///< of the cell; method: canonical
  bool isolated = false;                                        ///< the cell ran by itself
  bool single = false;    ///< a pilot's times of one sequence, which shared nothing
  int prompt_tokens = 0;  ///< length of the last turn's prompt
  std::size_t answers = 0, cut_answers = 0;  ///< cut: ended by the length limit
  std::size_t answer_tokens = 0;             ///< over all answers
  std::size_t ended_tokens = 0;              ///< over the answers that were not cut
  /// Times; of work shared with other cells, this cell's share.
  double prefill_seconds = 0, decode_seconds = 0;
};

}  // namespace turnbench
