#include "common/error.h"
#include "methods/parts/budget_parameters.h"
#include "methods/parts/episode_scores.h"
#include "methods/parts/scores.h"

namespace turnbench {
namespace {

class EpiCache : public Cloned<EpiCache, EvictionPolicy> {
 public:
  EpiCache(LayerBudget budget, const EpisodeSettings& episodes, bool adaptive)
      : budget_(std::move(budget)), episodes_(episodes), adaptive_(adaptive) {}
  EpiCache(const EpiCache& other) : EpiCache(other.budget_, other.episodes_, other.adaptive_) {}

  bool keeps_unequal_sets() const override { return adaptive_; }
  std::unique_ptr<ScoringPasses> scoring_passes(int prompt_tokens) const override {
    if (budget_.tokens(prompt_tokens) >= prompt_tokens) return nullptr;
    return std::make_unique<EpisodeScores>(episodes_, last_pass_);
  }
  KeepSets after_prefill(const LayerView& view) override {
    if (view.scoring == nullptr) return {};
    if (budget_.tokens(view.prompt_tokens) < 1) {
      throw input_error("epicache: found a budget of 0 tokens of {}, expected at least 1",
                        view.prompt_tokens);
    }
    const auto& scores = static_cast<const EpisodeScores&>(*view.scoring).scores();
    if (scores.empty()) return {};
    const std::vector<std::vector<float>>& sets = scores[view.layer];
    const int budget = budget_.choices(view, 0);
    KeepSets out;
    if (!adaptive_) {
      for (const std::vector<float>& set : sets)
        out.slots.push_back(top_k(set, std::min(budget, static_cast<int>(set.size()))));
      return out;
    }
    std::vector<float> all;  // set by set
    for (const std::vector<float>& set : sets) all.insert(all.end(), set.begin(), set.end());
    const std::int64_t total = static_cast<std::int64_t>(budget) * std::ssize(sets);
    const std::vector<std::int32_t> best =
        top_k(all, static_cast<int>(std::min<std::int64_t>(total, std::ssize(all))));
    auto next = best.begin();
    std::int32_t first = 0;  // of the set, in `all`
    for (const std::vector<float>& set : sets) {
      std::vector<std::int32_t>& slots = out.slots.emplace_back();
      const auto end = first + static_cast<std::int32_t>(set.size());
      for (; next != best.end() && *next < end; ++next) slots.push_back(*next - first);
      first = end;
    }
    return out;
  }

 private:
  LayerBudget budget_;
  EpisodeSettings episodes_;
  bool adaptive_;
  std::shared_ptr<EpisodeScores::LastPass> last_pass_ = std::make_shared<EpisodeScores::LastPass>();
};

}  // namespace

/// Keeps the tokens that receive the most attention from a prompt about the episode of the dialogue
/// that is the nearest to the question (Kim et al., 2025, section 3): one compressed cache per
/// episode, of which the question chooses one.
MethodInfo epicache() {
  using Kind = ParameterInfo::Kind;
  return {
      .name = "epicache",
      .summary = "keeps the tokens with the highest attention of the question's episode",
      .paper =
          "Kim et al., EpiCache: Episodic KV Cache Management for Long Conversational Question "
          "Answering, 2025",
      .budget_unit =
          "prompt tokens kept per KV head of one episode's cache, as a mean over a layer's heads; "
          "generated tokens are not counted",
      .deviations =
          "the paper's setting is compress=before_question with compress_block: by default, the "
          "question is compressed with the prompt, and the prompt is one block; each turn computes "
          "only the cache of its question's episode, which does not depend on the question "
          "otherwise; costs are those of this cache, and the caches of the other episodes are "
          "not counted; a history that keeps the cache (compress_once, recompress) keeps that of "
          "the earlier question's episode; embeddings are means of the model's input embeddings, "
          "as with the official code's embedding_type=llm; utterances are lines, and lines of "
          "more than 128 tokens are divided into sentences (official code: utterances of the "
          "dataset; assistant's messages of more than 500 characters into sentences); k-means has "
          "seeds of its own; the pass follows at the position after the block (official code: at "
          "that of its last token); layers have equal budgets unless `layers` divides them (the "
          "paper measures sensitivities); no pass if all tokens fit into the budget; the pairs of "
          "the additional passes, each of which has up to medoids x utterances lines, count as "
          "computed pairs of the prompt; no combination with a selection",
      .parameters = {{"budget", Kind::kBudget, "1024", "tokens or share",
                      "prompt tokens kept per set, a mean over a layer's sets"},
                     {"episodes", Kind::kInteger, "4", "episodes",
                      "clusters of the dialogue's windows", 1, 256},
                     {"utterances", Kind::kInteger, "4", "utterances",
                      "size of a window of the dialogue", 1, 4096},
                     {"medoids", Kind::kInteger, "8", "windows",
                      "windows nearest to an episode's centroid, which represent it", 1, 4096},
                     {"heads", Kind::kChoice, "adaptive", "adaptive|uniform",
                      "adaptive: the best tokens of all KV heads of a layer; uniform: equally many "
                      "of each"},
                     layers_parameter()},
      .make = [](const Parameters& p) {
        return Policies{.eviction = std::make_unique<EpiCache>(
                            layer_budget("epicache", p),
                            EpisodeSettings{.episodes = p.integer("episodes"),
                                            .utterances = p.integer("utterances"),
                                            .medoids = p.integer("medoids")},
                            p.choice("heads") == "adaptive")};
      }};
}

}  // namespace turnbench
