#include "judges/prompt.h"

#include "common/text.h"
#include "datasets/fill_template.h"

namespace turnbench {
namespace {

std::string contexts_of(const Turn& turn, std::size_t first, std::size_t last) {
  std::string out;
  for (std::size_t i = first; i < last; ++i) out += turn.contexts[i].text + "\n";
  return out;
}

/// The user's text of a turn, in the order of the prompt.
std::string message_of(const Turn& turn) {
  const std::size_t slot = question_index(turn);
  const std::string instruction = turn.instruction.empty() ? "" : turn.instruction + "\n";
  return trim(instruction + contexts_of(turn, 0, slot) + turn.question + "\n" +
              contexts_of(turn, slot, turn.contexts.size()));
}

const std::string& guidance_of(const Rubric& rubric, const Dialogue& dialogue) {
  static const std::string kNone;
  for (const Rubric::Guidance& g : rubric.guidance) {
    if ((g.task.empty() || g.task == dialogue.task) && dialogue.id.ends_with(g.id_ending))
      return g.text;
  }
  return kNone;
}

}  // namespace

std::string judge_prompt(const Rubric& rubric, const Dialogue& dialogue, int turn,
                         const std::map<int, std::string>& answers) {
  const auto answer_of = [&](int t) {
    const auto found = answers.find(t);
    return found == answers.end() ? std::string("(no answer)")
                                  : dialogue.turns[t].answer_prefix + found->second;
  };
  std::string history;
  for (int t = 0; t < turn; ++t) {
    history +=
        "[User]\n" + message_of(dialogue.turns[t]) + "\n[Assistant]\n" + trim(answer_of(t)) + "\n";
  }
  const Turn& judged = dialogue.turns[turn];
  const std::string message = message_of(judged), answer = answer_of(turn),
                    context = trim(contexts_of(judged, 0, judged.contexts.size())),
                    reference = join(judged.references, "\n");
  history = history.empty() ? "(none)" : trim(history);
  return fill_template(rubric.prompt,
                       {{"history", history},
                        {"message", message},
                        {"context", context},
                        {"question", judged.question},
                        {"reference", reference},
                        {"answer", answer},
                        {"guidance", guidance_of(rubric, dialogue)}},
                       rubric.name);
}

}  // namespace turnbench
