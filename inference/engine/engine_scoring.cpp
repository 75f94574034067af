// Evictions that score the tokens of a prompt by passes after it.

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/clock.h"
#include "inference/engine/encoded_rows.h"
#include "inference/engine/engine.h"

namespace turnbench {
namespace {

class ScoringObserver : public LayerObserver {
 public:
  ScoringObserver(ScoringPasses& scoring, std::size_t pass) : scoring_(scoring), pass_(pass) {}
  void attention(const LayerView& view) override { scoring_.score(view, pass_); }

 private:
  ScoringPasses& scoring_;
  std::size_t pass_;
};

struct Scored {
  std::unique_ptr<ScoringPasses> scoring;
  std::vector<Sequence*> sequences;
};

/// The sequences of a pass whose evictions have scoring passes, by the key of these.
std::map<std::string, Scored> scored_sequences(const Pass& pass) {
  std::vector<Sequence*> forks = pass.forks;
  if (forks.empty()) forks.push_back(pass.sequence);
  std::map<std::string, Scored> out;
  for (Sequence* fork : forks) {
    if (!fork->policies.eviction) continue;
    std::unique_ptr<ScoringPasses> scoring =
        fork->policies.eviction->scoring_passes(static_cast<int>(pass.sequence->tokens.size()));
    if (scoring == nullptr) continue;
    Scored& scored = out[scoring->key()];
    if (scored.scoring == nullptr) scored.scoring = std::move(scoring);
    scored.sequences.push_back(fork);
  }
  return out;
}

}  // namespace

double Engine::run_scoring_passes(const Sequence& prompt, const DialogueView& dialogue,
                                  ScoringPasses& scoring) {
  const std::vector<std::vector<int>> passes = scoring.begin(dialogue);
  double pairs = 0;
  for (std::size_t i = 0; i < passes.size(); ++i) {
    Policies dense;
    if (prompt.policies.codec) dense.codec = prompt.policies.codec->clone();
    dense.method = prompt.policies.method;
    Sequence fork = prompt.fork_as(std::move(dense));
    fork.fork_retrievers.clear();
    fork.counters = {};
    ScoringObserver observer(scoring, i);
    const Pass pass{
        .sequence = &fork, .tokens = passes[i], .dialogue = &dialogue, .observer = &observer};
    prefill({&pass, 1});
    pairs += fork.counters.prefill_pairs;
  }
  return pairs;
}

void Engine::evict_by_scores(const Pass& pass) {
  if (!pass.prompt_end || !pass.evict) return;
  Sequence& s = *pass.sequence;
  DialogueView dialogue = pass.dialogue != nullptr ? *pass.dialogue : DialogueView{};
  dialogue.tokens = s.tokens;
  dialogue.embedding = [&table = core_.model.embedding()](int token) {
    std::vector<float> out(static_cast<std::size_t>(table.in()));
    table.read_row(token, out.data());
    return out;
  };
  for (auto& [key, scored] : scored_sequences(pass)) {
    const auto start = Clock::now();
    const double pairs = run_scoring_passes(s, dialogue, *scored.scoring);
    const double seconds = seconds_since(start);
    for (Sequence* of : scored.sequences) {
      of->counters.prefill_pairs += pairs;
      of->counters.policy_seconds += seconds;
    }
    for (int l = 0; l < core_.shape.layers; ++l) {
      Stage& stage = core_.stage_of(l);
      stage.memory->synchronize();
      std::vector<KvHeadCache> decoded;
      const std::span<const KvHeadCache> sets = decoded_sets(core_, s, l, s.sets(l), decoded);
      AttentionStats stats(stage.backend, core_.shape, core_.scale,
                           core_.model.config().sliding_window[l], sets, {}, &s.at(l).tail);
      LayerView view{l,        core_.shape,     sets, stats,
                     dialogue, s.next_position, 0,    static_cast<int>(s.tokens.size()),
                     0};
      core_.add_tools(view, {});
      view.scratch->clear();
      LayerMemo memo;
      view.memo = &memo;
      view.scoring = scored.scoring.get();
      for (Sequence* of : scored.sequences) attention_.end_prompt(s, *of, true, stats, view);
    }
  }
}

}  // namespace turnbench
