#include "harness/experiment/prompt_lengths.h"

namespace turnbench {

const PromptLengths& PlannedLengths::of(std::size_t model, const Dialogue& dialogue) {
  const auto found = known_.find({model, &dialogue});
  if (found != known_.end()) return found->second;
  PromptLengths out;
  const ResolvedModel& planned = plan_.experiment.models[model];
  const Decoding decoding = plan_.experiment.decoding(planned);
  const PromptRenderer renderer = plan_.experiment.renderer(planned);
  const int turns = static_cast<int>(dialogue.turns.size());
  std::int64_t prompt = 0;
  for (int t = 0; t < turns; ++t) {
    prompt += static_cast<std::int64_t>(
        renderer.render(dialogue, t, turn_limit(decoding, dialogue)).tokens.size());
    out.prompts.push_back(prompt);
    out.answers.push_back(answer_limit(decoding, dialogue.turns[static_cast<std::size_t>(t)]));
  }
  return known_.emplace(std::pair(model, &dialogue), std::move(out)).first->second;
}

PlannedLengths PlannedLengths::with_answers(
    const std::function<std::int64_t(std::size_t, std::int64_t)>& expected) const {
  PlannedLengths out(*this);
  for (auto& [of, lengths] : out.known_) {
    for (std::int64_t& answer : lengths.answers) answer = expected(of.first, answer);
  }
  return out;
}

}  // namespace turnbench
