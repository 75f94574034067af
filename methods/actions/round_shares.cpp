#include "methods/actions/round_shares.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <utility>

#include "methods/actions/watershed.h"

namespace turnbench {
namespace {

/// Passes each layer's attention of one pass to a function; attention stays dense.
class RoundObserver : public Cloned<RoundObserver, PrefillPolicy> {
 public:
  explicit RoundObserver(std::function<void(const LayerView&)> show) : show_(std::move(show)) {}
  bool reuses_cached_prompt() const override { return true; }
  std::vector<HeadPattern> plan(const LayerView& view) override {
    show_(view);
    return {};
  }

 private:
  std::function<void(const LayerView&)> show_;
};

}  // namespace

RoundShares measure_round_shares(Engine& engine, const TokenizedDialogue& dialogue) {
  const std::vector<PositionRange> rounds = earlier_rounds(dialogue.spans, dialogue.turn);
  const auto begin = static_cast<std::int32_t>(dialogue.history_tokens),
             answer = static_cast<std::int32_t>(dialogue.prompt_tokens),
             end = static_cast<std::int32_t>(dialogue.tokens.size());
  RoundShares out;
  Policies policies;
  policies.prefill = std::make_unique<RoundObserver>([&](const LayerView& view) {
    LayerSums sums(view);
    /// Returns whether there is attention.
    const auto add = [&](std::vector<std::vector<double>>& to, PositionRange rows) {
      std::vector<double>& shares = to.emplace_back(round_shares(sums, rows, rounds));
      if (!shares.empty()) return true;
      shares.assign(rounds.size(), 1 / static_cast<double>(rounds.size()));
      return false;
    };
    add(out.question, {begin, answer});
    if (!add(out.last, {answer - 1, answer})) ++out.without_attention;
    if (end > answer) add(out.answer, {answer, end});
  });
  const DialogueView view{dialogue.tokens, dialogue.spans, dialogue.turn, 0, {}};
  const std::span<const int> tokens = dialogue.tokens;
  Sequence before = engine.make_sequence({});
  const Pass earlier{
      .sequence = &before, .tokens = tokens.first(dialogue.history_tokens), .dialogue = &view};
  engine.prefill({&earlier, 1});
  Sequence sequence = before.fork_as(std::move(policies));
  const Pass pass{.sequence = &sequence,
                  .tokens = tokens.subspan(dialogue.history_tokens),
                  .dialogue = &view,
                  .prompt_end = true};
  engine.prefill({&pass, 1});
  return out;
}

}  // namespace turnbench
