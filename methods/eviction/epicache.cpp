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
    if (adaptive_)
      return {top_k_of_rows(sets, static_cast<std::int64_t>(budget) * std::ssize(sets))};
    KeepSets out;
    for (const std::vector<float>& set : sets)
      out.slots.push_back(top_k(set, std::min(budget, static_cast<int>(set.size()))));
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
      .summary =
          "keeps the tokens with the highest attention in a pass over text of the question's "
          "episode",
      .paper =
          "Kim et al., EpiCache: Episodic KV Cache Management for Long Conversational Question "
          "Answering, 2025",
      .budget_unit =
          "prompt tokens kept per KV head in the cache of one episode, as a mean over a layer's KV "
          "heads; generated tokens are not counted",
      .deviations =
          "the paper's setting is compress=before_question with compress_block; the defaults "
          "differ: the question is compressed with the prompt, and the prompt is one block; each "
          "turn computes the cache of one episode only, which the question selects; with "
          "compress=before_question, the question has no other effect on this cache; costs do not "
          "include the caches of other episodes; with history compress_once or recompress, later "
          "turns continue from the cache of the earlier question's episode; embeddings are means "
          "of the model's input embeddings, as with the official code's embedding_type=llm; "
          "utterances are lines, and lines of more than 128 tokens are divided into sentences "
          "(official code: the dataset's utterances; assistant messages of more than 500 "
          "characters are divided into sentences); the seeds of k-means are fixed and differ from "
          "those of the official code; a scoring pass starts at the position after the block's "
          "last token (official code: at the position of this token); layers have equal budgets "
          "unless `layers` divides them (the paper measures sensitivities); there is no pass if "
          "all tokens fit into the budget; a pass has up to medoids x utterances utterances, and "
          "its pairs count as computed pairs of the prompt; no combination with a selection",
      .parameters = {{"budget", Kind::kBudget, "1024", "tokens or share",
                      "prompt tokens kept per KV head, as a mean over a layer's KV heads"},
                     {"episodes", Kind::kInteger, "4", "episodes",
                      "clusters of the dialogue's windows", 1, 256},
                     {"utterances", Kind::kInteger, "4", "utterances",
                      "size of a window of the dialogue", 1, 4096},
                     {"medoids", Kind::kInteger, "8", "windows",
                      "number of windows that represent an episode: those nearest to its centroid",
                      1, 4096},
                     {"heads", Kind::kChoice, "adaptive", "adaptive|uniform",
                      "adaptive: the best tokens of all KV heads of a layer; uniform: the same "
                      "number of tokens in each KV head"},
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
