#pragma once

#include <cstdint>
#include <map>
#include <memory>
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

/// The answer along which fidelity is measured: the answer of full attention, or the gold answer.
enum class Along { kFull, kGold };
inline std::string_view name_of(Along along) {
  return along == Along::kFull ? "full" : "gold";
}

/// Settings of answer generation.
struct Decoding {
  int max_prompt_tokens = 0;  ///< for a whole dialogue, at least 1
  int max_new_tokens = 0;     ///< 0: the limit of each turn
  double temperature = 0;
  std::uint64_t seed = 0;
  bool isolated = false;  ///< as in Manifest; records then contain the cell's own times and memory
  double link_gbps = 0;   ///< as in Manifest
  std::optional<Along> fidelity = {};  ///< if set, fidelity is measured along this answer
};

/// The maximum number of tokens of a turn's answer; the same in every cell.
int answer_limit(const Decoding& decoding, const Turn& turn);

/// The maximum number of tokens of each turn of a dialogue: [turns].  Turns without contexts, which
/// cannot be cut, may use all of `max_prompt_tokens`; what they leave is divided equally among the
/// turns with contexts, at least 1 for each.  If no turn has contexts, each has an equal share.
std::vector<int> turn_limits(const PromptRenderer& renderer, const Decoding& decoding,
                             const Dialogue& dialogue);

/// Why a run refuses a dialogue; "" if it does not.  Turns without contexts, and the instructions,
/// questions and markup of all turns, cannot be cut.  turns: rendered within `limits`, the result
/// of `turn_limits`.
std::string excess_of(const Decoding& decoding, const Dialogue& dialogue,
                      std::span<const int> limits, std::span<const RenderedTurn> turns);

/// The seed of the methods' random choices; the same in every cell.
std::uint64_t policy_seed(const Decoding& decoding, const Dialogue& dialogue);

/// The turns of a dialogue as tokens.
struct RenderedDialogue {
  std::vector<RenderedTurn> turns;
  std::map<int, std::vector<int>> gold_answers;  ///< of the turns for which they were needed
};

/// The state of a dialogue whose turns are asked and answered one after another.
struct Conversation {
  const Dialogue* dialogue = nullptr;
  Prompt prompt;                   ///< for the current turn: everything before the answer
  std::size_t history_tokens = 0;  ///< tokens of the prompt before the turn's own tokens
  std::vector<int> answer;
  bool stopped = false;   ///< the answer ended at a stop token
  bool finished = false;  ///< the answer is complete: stop token, or maximum length
  Record record;          ///< of the current turn; the caller sets its cell
  /// Conversations with the same dialogue share it.  Null before the first turn.
  std::shared_ptr<RenderedDialogue> rendered;

  /// Appends the previous answer (the method's own or the gold answer) and the next turn to the
  /// prompt.  Sampling has the same seed in every cell.  Renders all turns if `rendered` is null.
  /// @throws Error (input) if it renders a dialogue that is too long even without its contexts.
  void begin_turn(const PromptRenderer& renderer, const Decoding& decoding, Answers answers,
                  int turn);
  /// Samples the next token of the answer.  A token in `stops` ends the answer.
  void sample_token(std::span<const float> logits, const std::vector<int>& stops);
  /// Takes over the answer of a conversation with the same prompt.
  void copy_answer(const Conversation& from);
  /// The answer, including the stop token that ended it, if any.
  std::vector<int> ended_answer() const;
  /// Writes the answer to a record.
  void write_answer(const PromptRenderer& renderer, Record& record) const;

 private:
  const std::vector<int>& gold_answer(const PromptRenderer& renderer, int turn);

  Sampler sampler_;
  std::size_t limit_ = 0;  ///< maximum number of answer tokens
  int last_token_ = 0;     ///< the token sampled last
};

}  // namespace turnbench
