#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "common/random.h"
#include "methods/method.h"
#include "methods/parts/budget_parameters.h"
#include "methods/parts/cluster_index.h"
#include "methods/parts/per_layer.h"
#include "methods/parts/scores.h"
#include "methods/parts/step_tokens.h"

namespace turnbench {
namespace {

class ClusterKv : public Cloned<ClusterKv, SelectionPolicy> {
 public:
  struct Settings {
    Budget budget;
    bool sinks_count;  ///< sinks count towards the budget
    int sinks;         ///< tokens
    int dense_layers;
    int first_clusters;  ///< clusters of the first prompt; 0: by cluster_tokens
    int cluster_tokens;
    int iterations;
    int window;  ///< tokens of an answer that are clustered together; 0: answers are not clustered
    int window_clusters;
  };
  explicit ClusterKv(const Settings& s) : s_(s) {}

  SelectionTraits traits() const override { return {.needs_whole_answers = true}; }

  /// Clusters the new tokens of the prompt as one batch, in which the last answer is clustered
  /// again.
  void after_prefill(const LayerView& view) override {
    Layer& layer = layers_[view.layer];
    layer.clusters.forget_answer();
    layer.prompt.clear();
    for (const KvHeadCache& set : view.sets) layer.prompt.push_back(set.size());
    layer.chosen = chosen_of(view.prompt_tokens);
    if (view.layer < s_.dense_layers) return;
    // After evictions, slots refer to other tokens.
    const int least = *std::min_element(layer.prompt.begin(), layer.prompt.end());
    if (least < view.prompt_tokens || layer.clusters.sets() != view.sets.size())
      layer.clusters.clear();
    if (!fits(layer, 0)) add_prompt(view, layer);
  }

  /// The index: the copy of the keys that is clustered, and the centroids on host and device.
  DeviceNeeds demand(const PromptSize& size, const LayerView* known) const override {
    if (size.layer < s_.dense_layers) return {.everything = true};
    const int chosen = chosen_of(size.prompt_tokens);
    const std::int64_t clusters =
        s_.first_clusters > 0 ? s_.first_clusters : clusters_of(size.tokens);
    DeviceNeeds out = {
        .everything = size.tokens - s_.sinks <= chosen,
        .pinned_tokens = s_.sinks + (s_.window > 0 ? s_.window : kAnswerRoom),
        .step_tokens = size.heads_per_set() * chosen,
        .first = s_.sinks,
        .lists_per_set = size.heads_per_set(),
        .per_list = true,
        .index_bytes = size.key_elements(size.tokens + 2 * clusters) * sizeof(float)};
    if (known != nullptr && s_.window == 0) {
      const std::vector<std::int32_t>& prompt = layers_[size.layer].prompt;
      const auto [least, most] = std::minmax_element(prompt.begin(), prompt.end());
      out.pinned_tokens += *most - *least;
    }
    return out;
  }

  /// Sinks, and the last tokens of the answer; these include all tokens outside clusters.
  std::vector<SlotRange> pinned(int layer, int /*set*/, int tokens) const override {
    const std::vector<std::int32_t>& prompt = layers_[layer].prompt;
    std::int32_t begin = *std::min_element(prompt.begin(), prompt.end());
    if (s_.window > 0) begin = std::max(begin, tokens - s_.window);
    return sinks_and_window(s_.sinks, begin, tokens);
  }

  /// Products with centroids -> the best clusters of each query head, the last one truncated.
  Selection select(const LayerView& view) override {
    if (view.layer < s_.dense_layers) return {};
    Layer& layer = layers_[view.layer];
    if (fits(layer, full_windows(view))) return {};
    if (layer.clusters.end(0) < layer.prompt[0]) add_prompt(view, layer);  // when first needed
    cluster_answer(view, layer);
    const ClusterIndex::Scores scores = layer.clusters.score(view);
    Selection out;
    out.slots.resize(static_cast<std::size_t>(view.shape.heads));
    view.backend->parallel_for(out.slots.size(), [&](std::size_t head) {
      const std::size_t set = head / static_cast<std::size_t>(view.heads_per_set());
      std::vector<std::int32_t> slots = all_slots(std::min(s_.sinks, layer.prompt[set]));
      layer.clusters.append_best(set, scores.of(head, set), view.sets[set].size(), layer.chosen,
                                 slots);
      out.slots[head] = with_tail(std::move(slots), layer.clusters.end(set), view.sets[set].size());
    });
    return out;
  }

 private:
  struct Layer {
    int chosen = 0;                    ///< tokens of clusters that a query head reads
    std::vector<std::int32_t> prompt;  ///< [sets]: tokens at its end
    ClusterIndex clusters;
  };

  /// Whether steps would read all tokens of the prompt and of `answered` clustered tokens of the
  /// answer.
  bool fits(const Layer& layer, int answered) const {
    const int most = *std::max_element(layer.prompt.begin(), layer.prompt.end());
    return most - s_.sinks + answered <= layer.chosen;
  }

  /// The number of answer tokens before the current one that must be in clusters.
  int full_windows(const LayerView& view) const {
    return s_.window == 0 ? 0 : (view.generated - 1) / s_.window * s_.window;
  }

  /// The number of tokens in clusters that a query head reads.
  int chosen_of(int prompt_tokens) const {
    return std::max(0, s_.budget.tokens(prompt_tokens) - (s_.sinks_count ? s_.sinks : 1));
  }

  std::int32_t clusters_of(std::int32_t tokens) const {
    return (tokens + s_.cluster_tokens - 1) / s_.cluster_tokens;
  }

  /// Settings with the same random tokens for all heads of a layer.
  KeyClusters::Settings settings(const LayerView& view, std::int32_t first) const {
    return {s_.iterations, Random::from({view.dialogue.seed, seed_of("clusterkv"),
                                         static_cast<std::uint64_t>(view.layer),
                                         static_cast<std::uint64_t>(first)})};
  }

  /// Starts to cluster the tokens from the last clustered one to the end of the prompt.
  void add_prompt(const LayerView& view, Layer& layer) const {
    const bool is_first = layer.clusters.empty();
    std::vector<KeyClusters::Part> parts;
    for (std::size_t s = 0; s < view.sets.size(); ++s) {
      const std::int32_t end = layer.prompt[s],
                         begin = is_first ? std::min(s_.sinks, end) : layer.clusters.end(s),
                         tokens = end - begin;
      const bool given = is_first && s_.first_clusters > 0;
      parts.push_back(
          {{begin, end}, given ? std::min(s_.first_clusters, tokens) : clusters_of(tokens)});
    }
    const std::int32_t first = parts[0].slots.begin;
    const std::string key = fmt::format("clusterkv {} {} {} {} {}", is_first, first,
                                        s_.first_clusters, s_.cluster_tokens, s_.iterations);
    layer.clusters.add_prompt(view, parts, settings(view, first), key);
  }

  /// Clusters the answer tokens before the current one, `window` tokens at a time.
  void cluster_answer(const LayerView& view, Layer& layer) const {
    while (layer.clusters.end(0) - layer.prompt[0] < full_windows(view)) {
      std::vector<KeyClusters::Part> parts;
      for (std::size_t s = 0; s < view.sets.size(); ++s) {
        const std::int32_t begin = layer.clusters.end(s);
        parts.push_back({{begin, begin + s_.window}, std::min(s_.window_clusters, s_.window)});
      }
      layer.clusters.add_answer(view, parts, settings(view, parts[0].slots.begin));
    }
  }

  Settings s_;
  PerLayer<Layer> layers_;
};

}  // namespace

/// ClusterKV (Liu et al., 2024): the keys of a prompt are clustered by direction in the background
/// of the prefill; each query head reads the clusters whose centroids have the largest product with
/// its query (section III).
MethodInfo clusterkv() {
  using Kind = ParameterInfo::Kind;
  return {
      .name = "clusterkv",
      .summary = "clusters keys by direction and reads the clusters with the highest scores",
      .paper =
          "Liu et al., ClusterKV: Manipulating LLM KV Cache in Semantic Space for Recallable "
          "Compression, 2024",
      .budget_unit =
          "tokens read per query head and step, sinks included; answer tokens that are in no "
          "cluster yet, the current one among them, are not counted: at most `window` tokens, or "
          "with window=0 the whole answer; accounting=efficiency: sinks are not counted, the "
          "current token is",
      .deviations =
          "one cluster per 80 tokens, initial centroids drawn without replacement and always 20 "
          "iterations, as in the official efficiency code (accuracy code: k-means++ and 400 "
          "clusters); clusters are read in descending order of their scores (efficiency code: in "
          "the order of an incomplete sort), of the last one only the first tokens; an answer has "
          "4 clusters per 320 tokens as in the paper (efficiency code: 8; accuracy code: none), "
          "built in the step after these tokens (efficiency code: in the step of the last one, "
          "which may read tokens twice); the tokens that a later turn adds, the last answer "
          "included, are clustered as one batch (the official code supports a single prompt); a "
          "prompt within the budget is clustered when the answer exceeds the budget (accuracy "
          "code: everything is read, as with window=0); the whole prompt is dense and clustered "
          "(official LongBench runs: the end of the prompt, at most the last 100 characters of the "
          "question, passes token by token through steps that select, and is never clustered); "
          "with "
          "evictions all tokens are clustered again; ties go to the earlier cluster; the device "
          "keeps the tokens that a query head read in the previous step, and starts with none",
      .parameters =
          {{"budget", Kind::kBudget, "1024", "tokens or share", "tokens read per step"},
           {"sinks", Kind::kInteger, "16", "tokens", "first tokens, always read and in no cluster"},
           {"dense_layers", Kind::kInteger, "2", "layers",
            "number of first layers that read everything"},
           {"nlist", Kind::kInteger, "0", "clusters",
            "clusters of the first prompt; 0: as given by cluster_tokens"},
           {"cluster_tokens", Kind::kInteger, "80", "tokens", "prompt tokens per cluster", 1},
           {"iterations", Kind::kInteger, "20", "iterations", "iterations of k-means", 0, 300},
           {"window", Kind::kInteger, "320", "tokens",
            "answer tokens that are clustered together; until then every step reads them; 0: "
            "answers are never clustered"},
           {"window_clusters", Kind::kInteger, "4", "clusters",
            "clusters per window of answer tokens", 1},
           {"accounting", Kind::kChoice, "accuracy", "accuracy|efficiency",
            "what the budget counts: sinks and selected tokens, or selected tokens and the current "
            "one"}},
      .budget_traits = {.per_query_head = true},
      .make =
          [](const Parameters& p) {
            const int sinks = p.choice("accounting") == "accuracy" ? p.integer("sinks") : 0;
            check_room("clusterkv", p.budget("budget"), sinks, fmt::format("{} sinks", sinks));
            return Policies{.selection = std::make_unique<ClusterKv>(ClusterKv::Settings{
                                .budget = p.budget("budget"),
                                .sinks_count = p.choice("accounting") == "accuracy",
                                .sinks = p.integer("sinks"),
                                .dense_layers = p.integer("dense_layers"),
                                .first_clusters = p.integer("nlist"),
                                .cluster_tokens = p.integer("cluster_tokens"),
                                .iterations = p.integer("iterations"),
                                .window = p.integer("window"),
                                .window_clusters = p.integer("window_clusters")})};
          },
      .placement = {{"placement", "host"}, {"cache_block", "1"}, {"cache_rule", "previous"}},
      .compared_as = {{"window", ""}}};
}

}  // namespace turnbench
