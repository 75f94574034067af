#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "datasets/dialogue.h"
#include "harness/run/history.h"
#include "harness/run/prompt.h"
#include "harness/store/record.h"
#include "inference/engine/sampler.h"

namespace turnbench {

/// The answer along which fidelity is measured: full attention's own, or the gold one.
enum class Along { kFull, kGold };
inline std::string_view name_of(Along along) {
  return along == Along::kFull ? "full" : "gold";
}

/// How answers are generated.
struct Decoding {
  int max_prompt_tokens = 0;  ///< of a whole dialogue, at least 1
  int max_new_tokens = 0;     ///< 0: the turn's own
  double temperature = 0;
  std::uint64_t seed = 0;
  bool isolated = false;  ///< as in Manifest; records then have their own times and memory
  double link_gbps = 0;   ///< as in Manifest
  std::optional<Along> fidelity = {};  ///< if set, fidelity is measured along this answer too
};

/// The maximum number of tokens of a turn's answer; the same in every cell.
int answer_limit(const Decoding& decoding, const Turn& turn);

/// The maximum number of tokens of each turn of a dialogue: an equal share of `max_prompt_tokens`,
/// at least 1.
int turn_limit(const Decoding& decoding, const Dialogue& dialogue);

/// The seed of what methods draw; the same in every cell.
std::uint64_t policy_seed(const Decoding& decoding, const Dialogue& dialogue);

/// The state of a dialogue whose turns are asked and answered one after another.
struct Conversation {
  const Dialogue* dialogue = nullptr;
  Prompt prompt;                   ///< of the current turn: everything before the answer
  std::size_t history_tokens = 0;  ///< of the prompt: all before the turn's own tokens
  std::vector<int> answer;
  bool stopped = false;   ///< the answer ended at a stop token
  bool finished = false;  ///< the answer ended, at a stop token or at its maximum length
  Record record;          ///< of the current turn; the caller sets its cell

  /// Appends the previous answer (its own or the gold one) and the next turn to the prompt.
  /// Sampling is seeded alike in every cell.  The first call renders all turns.
  /// @throws Error (input) on the first call if the dialogue is too long even without its contexts.
  void begin_turn(const PromptRenderer& renderer, const Decoding& decoding, Answers answers,
                  int turn);
  /// Samples the next token of the answer.  A token in `stops` ends the answer.
  void sample_token(std::span<const float> logits, const std::vector<int>& stops);
  /// The answer with the stop token that ended it, if one did.
  std::vector<int> ended_answer() const;
  /// Writes the answer into a record.
  void write_answer(const PromptRenderer& renderer, Record& record) const;

 private:
  std::vector<RenderedTurn> rendered_;  ///< turns to come
  Sampler sampler_;
  std::size_t limit_ = 0;  ///< tokens of the answer
  int last_token_ = 0;     ///< that was sampled
};

}  // namespace turnbench
