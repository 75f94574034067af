#include "harness/experiment/prompt_lengths.h"

#include <algorithm>

namespace turnbench {
namespace {

/// The tokens from the question of a turn to its end.
std::int64_t tokens_from_question(const RenderedTurn& turn) {
  const auto question = std::find_if(turn.spans.begin(), turn.spans.end(),
                                     [](const Span& s) { return s.kind == SpanKind::kQuestion; });
  return question == turn.spans.end() ? 0 : std::ssize(turn.tokens) - question->begin;
}

}  // namespace

const PromptLengths& PlannedLengths::of(std::size_t model, const Dialogue& dialogue) {
  const auto found = known_.find({model, &dialogue});
  if (found != known_.end()) return found->second;
  PromptLengths out;
  const ResolvedModel& planned = plan_.experiment.models[model];
  const Decoding decoding = plan_.experiment.decoding(planned);
  const PromptRenderer renderer = plan_.experiment.renderer(planned);
  const std::vector<int> limits = turn_limits(renderer, decoding, dialogue);
  const std::vector<Answers>& answers = plan_.experiment.manifest.answers;
  const bool gold = std::ranges::count(answers, Answers::kGold) == std::ssize(answers);
  std::vector<RenderedTurn> turns;
  std::int64_t prompt = 0;
  for (int t = 0; t < std::ssize(dialogue.turns); ++t) {
    const auto earlier =
        gold && t > 0 ? renderer.gold_answer_tokens(dialogue.turns[t - 1]) : std::vector<int>();
    out.earlier_answers.push_back(std::ssize(earlier));
    prompt += std::ssize(earlier);
    const RenderedTurn& turn = turns.emplace_back(renderer.render(dialogue, t, limits[t]));
    prompt += std::ssize(turn.tokens);
    out.prompts.push_back(prompt);
    out.questions.push_back(tokens_from_question(turn));
    out.answers.push_back(answer_limit(decoding, dialogue.turns[t]));
  }
  out.refusal = excess_of(decoding, dialogue, limits, turns);
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
