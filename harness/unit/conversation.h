#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "datasets/dialogue.h"
#include "harness/store/record.h"
#include "harness/unit/history.h"
#include "harness/unit/prompt.h"
#include "inference/sampler.h"

namespace turnbench {

struct Decoding {
  int max_prompt_tokens = 0;  ///< of a whole dialogue, at least 1
  int max_new_tokens = 0;     ///< 0 = the turn's own
  double temperature = 0;
  std::uint64_t seed = 0;
  bool isolated = false;  ///< as in Manifest; records then carry times and memory of their own
};

/// The most tokens that the answer of a turn may have: the same for every cell.
int answer_limit(const Decoding& decoding, const Turn& turn);

/// The most tokens that each turn of a dialogue may have: its equal share, at least 1.
int turn_limit(const Decoding& decoding, const Dialogue& dialogue);

/// A dialogue while its turns are asked and answered, one after the other.
struct Conversation {
  const Dialogue* dialogue = nullptr;
  Prompt prompt;  ///< of this turn: everything before the answer
  std::vector<int> answer;
  bool stopped = false;   ///< the answer ended by a stop token
  bool finished = false;  ///< by one, or because it is as long as it may be
  Record record;          ///< of this turn; which cell's, the caller says

  /// The previous answer, its own or the gold one, joins the history, and the next turn.  Answers
  /// are sampled alike in every cell.  The first turn renders them all, and refuses a dialogue that
  /// is too long without its contexts before anything is computed for it.
  void begin_turn(const PromptRenderer& renderer, const Decoding& decoding, Answers answers,
                  int turn);
  /// Draws the next token of the answer, which ends at one of `stops`.
  void draw(std::span<const float> logits, const std::vector<int>& stops);
  /// Writes the answer into a record.
  void note_answer(const PromptRenderer& renderer, Record& record) const;

 private:
  std::vector<RenderedTurn> rendered_;  ///< turns to come
  Sampler sampler_;
  std::size_t limit_ = 0;  ///< tokens of the answer
};

}  // namespace turnbench
