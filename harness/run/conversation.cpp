#include "harness/run/conversation.h"

#include <fmt/format.h>

#include <algorithm>

#include "common/error.h"
#include "common/file.h"
#include "common/random.h"
#include "common/text.h"

namespace turnbench {

int answer_limit(const Decoding& decoding, const Turn& turn) {
  return decoding.max_new_tokens > 0 ? decoding.max_new_tokens : turn.max_new_tokens;
}

std::vector<int> turn_limits(const PromptRenderer& renderer, const Decoding& decoding,
                             const Dialogue& dialogue) {
  const auto has_contexts = [](const Turn& turn) { return !turn.contexts.empty(); };
  const auto turns = std::ssize(dialogue.turns);
  auto shares = std::ranges::count_if(dialogue.turns, has_contexts);
  if (shares == 0) shares = turns;
  const int all = decoding.max_prompt_tokens;
  std::int64_t left = all;
  std::vector<int> out(dialogue.turns.size(), all);
  for (int t = 0; shares < turns && t < turns; ++t) {
    if (!has_contexts(dialogue.turns[t]))
      left -= std::ssize(renderer.render(dialogue, t, all).tokens);
  }
  for (int t = 0; t < turns; ++t) {
    if (shares == turns || has_contexts(dialogue.turns[t]))
      out[t] = static_cast<int>(std::max<std::int64_t>(1, left / shares));
  }
  return out;
}

std::string excess_of(const Decoding& decoding, const Dialogue& dialogue,
                      std::span<const int> limits, std::span<const RenderedTurn> turns) {
  // Without contexts, turns cannot be truncated: only the whole dialogue has a limit.
  const bool has_contexts = std::any_of(dialogue.turns.begin(), dialogue.turns.end(),
                                        [](const Turn& t) { return !t.contexts.empty(); });
  std::size_t tokens = 0;
  for (std::size_t t = 0; t < turns.size(); ++t) {
    tokens += turns[t].tokens.size();
    const bool whole_fits = tokens <= static_cast<std::size_t>(decoding.max_prompt_tokens);
    if (turns[t].excess_tokens == 0 || (!has_contexts && whole_fits)) continue;
    return fmt::format(
        "found {} tokens of instruction, question and markup in turn {} of {}, expected at most "
        "{}: max_prompt_tokens of {} for {} turns",
        limits[t] + turns[t].excess_tokens, t + 1, printable(dialogue.id), limits[t],
        decoding.max_prompt_tokens, turns.size());
  }
  return "";
}

std::uint64_t policy_seed(const Decoding& decoding, const Dialogue& dialogue) {
  return Random::from({decoding.seed, seed_of(dialogue.id)}).next();
}

namespace {

std::vector<RenderedTurn> render_all(const PromptRenderer& renderer, const Decoding& decoding,
                                     const Dialogue& dialogue) {
  const std::vector<int> limits = turn_limits(renderer, decoding, dialogue);
  std::vector<RenderedTurn> out;
  for (int t = 0; t < std::ssize(dialogue.turns); ++t)
    out.push_back(renderer.render(dialogue, t, limits[t]));
  const std::string excess = excess_of(decoding, dialogue, limits, out);
  if (!excess.empty()) throw input_error("{}", excess);
  return out;
}

}  // namespace

void Conversation::begin_turn(const PromptRenderer& renderer, const Decoding& decoding,
                              Answers answers, int turn) {
  const std::vector<Turn>& turns = dialogue->turns;
  const auto at = static_cast<std::size_t>(turn);
  if (!rendered) {
    rendered = std::make_shared<RenderedDialogue>();
    rendered->turns = render_all(renderer, decoding, *dialogue);
  }
  if (turn > 0) {
    prompt.add_answer(turn - 1,
                      answers == Answers::kGold ? gold_answer(renderer, turn - 1) : answer);
  }
  const RenderedTurn& added = rendered->turns[at];
  history_tokens = prompt.tokens.size();
  prompt.add_turn(added);
  answer.clear();
  stopped = finished = false;
  limit_ = static_cast<std::size_t>(answer_limit(decoding, turns[at]));
  sampler_ =
      Sampler(decoding.temperature,
              Random::from({decoding.seed, seed_of(dialogue->id), static_cast<std::uint64_t>(turn)})
                  .next());
  record = {};
  record.dialogue = dialogue->id;
  record.turn = turn;
  record.prompt_tokens = static_cast<int>(prompt.tokens.size());
  record.truncated_tokens = added.truncated_tokens;
  record.prompt_hash = hash_bytes(std::as_bytes(std::span(prompt.tokens)));
}

const std::vector<int>& Conversation::gold_answer(const PromptRenderer& renderer, int turn) {
  auto found = rendered->gold_answers.find(turn);
  if (found == rendered->gold_answers.end()) {
    found = rendered->gold_answers.emplace(turn, renderer.gold_answer_tokens(dialogue->turns[turn]))
                .first;
  }
  return found->second;
}

void Conversation::sample_token(std::span<const float> logits, const std::vector<int>& stops) {
  const int token = sampler_.sample(logits);
  stopped = std::find(stops.begin(), stops.end(), token) != stops.end();
  last_token_ = token;
  if (!stopped) answer.push_back(token);
  finished = stopped || answer.size() >= limit_;
}

void Conversation::copy_answer(const Conversation& from) {
  answer = from.answer;
  stopped = from.stopped;
  finished = from.finished;
  last_token_ = from.last_token_;
}

std::vector<int> Conversation::ended_answer() const {
  std::vector<int> out = answer;
  if (stopped) out.push_back(last_token_);
  return out;
}

void Conversation::write_answer(const PromptRenderer& renderer, Record& to) const {
  to.answer_tokens = answer;
  to.answer = renderer.answer_text(answer);
  to.stopped = stopped;
}

}  // namespace turnbench
