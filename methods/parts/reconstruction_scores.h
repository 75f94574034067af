#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "inference/policy/policy.h"

namespace turnbench {

/// Scores the tokens of a prompt by the attention that they receive while the model repeats the
/// prompt (Kim et al., KVzip, 2025, section 3).  The prompt is repeated in chunks, one per pass: an
/// instruction, the last tokens of the previous chunk, the cue of an answer, and the chunk.  The
/// score of a token of the chunk is the largest attention probability of any row of the pass and
/// any query head of its KV head.  The probabilities are those over the sinks, the chunk, and the
/// tokens of the pass.
class ReconstructionScores : public ScoringPasses {
 public:
  struct Settings {
    int chunk = 2048;  ///< tokens that a pass repeats
    int sinks = 4;     ///< first tokens, always kept
  };
  explicit ReconstructionScores(const Settings& settings) : s_(settings) {}

  std::string key() const override;
  int longest_pass(int prompt_tokens) const override {
    return std::min(prompt_tokens, s_.chunk) + kInstructionTokens;
  }
  int tokens_of_passes(int prompt_tokens) const override { return prompt_tokens; }
  std::vector<std::vector<int>> begin(const DialogueView& dialogue) override;
  void score(const LayerView& view, std::size_t pass) override;

  /// Of each cached token: [layers][sets][tokens].  The sinks and the template's text before the
  /// first message, which is not repeated, have scores above 2, the first token the largest.
  const std::vector<std::vector<std::vector<float>>>& scores() const { return scores_; }

 private:
  static constexpr int kInstructionTokens = 128;  // at most, with the repeated tokens and the cue
  struct Chunk {
    int begin = 0, end = 0;  ///< positions
  };
  Settings s_;
  int fixed_ = 0;   // the sinks and the template's text
  int tokens_ = 0;  // of the prompt
  std::vector<Chunk> chunks_;
  std::vector<std::vector<std::vector<float>>> scores_;
};

}  // namespace turnbench
