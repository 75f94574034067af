#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "methods/parts/episodes.h"

namespace turnbench {

/// Scores all cached tokens by the attention that they receive in a pass that asks for the facts of
/// the question's episode (Kim et al., EpiCache, 2025, section 3.2).  The pass consists of an
/// instruction, what the template writes before an answer, and the windows that represent the
/// episode.  The score of a token is the largest attention probability of any row of the pass and
/// any query head of its KV head.  The softmax is computed over the cached tokens only, without the
/// tokens of the pass.
class EpisodeScores : public ScoringPasses {
 public:
  /// The tokens of the last pass, with the text and the question from which they were computed.
  /// All blocks of a prompt, which have the same text and question, use them.
  struct LastPass {
    std::vector<int> text, question, tokens;
  };
  /// last: may be null.
  explicit EpisodeScores(const EpisodeSettings& settings, std::shared_ptr<LastPass> last = nullptr)
      : s_(settings), last_(last ? std::move(last) : std::make_shared<LastPass>()) {}

  std::string key() const override;
  int longest_pass(int prompt_tokens) const override;
  int tokens_of_passes(int prompt_tokens) const override;
  bool works_in_blocks() const override { return true; }
  std::vector<std::vector<int>> begin(const DialogueView& dialogue) override;
  void score(const LayerView& view, std::size_t pass) override;

  /// Of each cached token: [layers][sets][tokens].
  const std::vector<std::vector<std::vector<float>>>& scores() const { return scores_; }

 private:
  std::vector<int> pass_for(const DialogueView& dialogue) const;

  EpisodeSettings s_;
  std::shared_ptr<LastPass> last_;
  int tokens_ = 0;  // tokens of the dialogue before the rows of the pass
  std::vector<std::vector<std::vector<float>>> scores_;
};

}  // namespace turnbench
