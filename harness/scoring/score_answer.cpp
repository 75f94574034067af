#include "harness/scoring/score_answer.h"

namespace turnbench {

std::optional<double> score_answer(const Scorer& scorer, const Turn& turn,
                                   const std::string& answer) {
  const std::string text = scorer.postprocess->apply(answer);
  return score_of(*scorer.metric, {text, turn.references, turn.classes, scorer.segmenter});
}

}  // namespace turnbench
