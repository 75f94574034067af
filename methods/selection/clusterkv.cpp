#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "common/error.h"
#include "common/random.h"
#include "inference/kv/slot_set.h"
#include "methods/method.h"
#include "methods/parts/budget_parameters.h"
#include "methods/parts/key_clusters.h"
#include "methods/parts/scores.h"

namespace turnbench {
namespace {

constexpr int kAnswerRoom = 1024;  // pinned answer tokens before a new working set is needed

/// Iterates over the indices of scores from the highest score on; ties go to the lower index.
class FromTheHighest {
 public:
  explicit FromTheHighest(std::span<const float> scores) : scores_(scores) {
    for (std::size_t i = 0; i < scores.size(); ++i) {
      if (std::isnan(scores[i])) throw runtime_error("cluster {}: found the score NaN", i);
    }
    heap_ = all_slots(static_cast<int>(scores.size()));
    std::make_heap(heap_.begin(), heap_.end(), Worse{scores_});
  }

  bool empty() const { return heap_.empty(); }
  std::int32_t take() {
    std::pop_heap(heap_.begin(), heap_.end(), Worse{scores_});
    const std::int32_t out = heap_.back();
    heap_.pop_back();
    return out;
  }

 private:
  struct Worse {
    std::span<const float> scores;
    bool operator()(std::int32_t a, std::int32_t b) const {
      const float x = scores[static_cast<std::size_t>(a)], y = scores[static_cast<std::size_t>(b)];
      return x != y ? x < y : a > b;
    }
  };
  std::span<const float> scores_;
  std::vector<std::int32_t> heap_;
};

class ClusterKv : public SelectionPolicy {
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

  std::unique_ptr<SelectionPolicy> clone() const override {
    return std::make_unique<ClusterKv>(*this);
  }
  SelectionTraits traits() const override { return {.needs_whole_answers = true}; }

  /// Clusters the new tokens of the prompt as one batch, in which the last answer is clustered
  /// again.
  void after_prefill(const LayerView& view) override {
    layers_.resize(static_cast<std::size_t>(view.shape.layers));
    Layer& layer = layers_[static_cast<std::size_t>(view.layer)];
    layer.forget_answer();
    layer.prompt.clear();
    for (const KvHeadCache& set : view.sets) layer.prompt.push_back(set.size());
    layer.chosen = chosen_of(view.prompt_tokens);
    if (view.layer < s_.dense_layers) return;
    // After evictions, slots refer to other tokens.
    const int least = *std::min_element(layer.prompt.begin(), layer.prompt.end());
    if (least < view.prompt_tokens || layer.clustered.size() != view.sets.size())
      layer.forget_all();
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
      const std::vector<std::int32_t>& prompt =
          layers_[static_cast<std::size_t>(size.layer)].prompt;
      const auto [least, most] = std::minmax_element(prompt.begin(), prompt.end());
      out.pinned_tokens += *most - *least;
    }
    return out;
  }

  /// Sinks, and the last tokens of the answer; these include all tokens outside clusters.
  std::vector<SlotRange> pinned(int layer, int /*set*/, int tokens) const override {
    const std::vector<std::int32_t>& prompt = layers_[static_cast<std::size_t>(layer)].prompt;
    std::int32_t begin = *std::min_element(prompt.begin(), prompt.end());
    if (s_.window > 0) begin = std::max(begin, tokens - s_.window);
    if (begin <= s_.sinks) return {{0, tokens}};
    return {{0, s_.sinks}, {begin, tokens}};
  }

  /// Products with centroids -> the best clusters of each query head, the last one truncated.
  Selection select(const LayerView& view) override {
    if (view.layer < s_.dense_layers) return {};
    Layer& layer = layers_[static_cast<std::size_t>(view.layer)];
    if (fits(layer, full_windows(view))) return {};
    if (layer.clustered != layer.prompt) add_prompt(view, layer);  // it fitted until now
    cluster_answer(view, layer);
    for (Batch& batch : layer.batches) batch.wait(view.backend->memory());
    const Scores scores = score(view, layer);
    Selection out;
    out.slots.resize(static_cast<std::size_t>(view.shape.heads));
    view.backend->parallel_for(out.slots.size(), [&](std::size_t head) {
      const std::size_t set = head / static_cast<std::size_t>(view.heads_per_set());
      std::vector<std::int32_t> slots = all_slots(std::min(s_.sinks, layer.prompt[set]));
      append_best(layer, set, scores.of(head, set), view.sets[set].size(), slots);
      out.slots[head] =
          with_tail(std::move(slots), layer.first_unclustered(set), view.sets[set].size());
    });
    return out;
  }

 private:
  /// Tokens that were clustered together.
  struct Batch {
    std::shared_ptr<const KeyClusters> clusters;
    std::shared_ptr<const Buffer> centroids = {};  ///< in the backend's memory

    /// Waits for the clusters and copies their centroids to the device.
    void wait(const std::shared_ptr<Memory>& memory) {
      if (centroids) return;
      clusters->wait();
      const MatrixView<const float> host = clusters->centroids();
      const auto count = static_cast<std::size_t>(host.rows * host.columns);
      auto buffer = std::make_shared<Buffer>(count * sizeof(float), memory);
      memory->copy(std::array{copy_of(host.data, buffer->as<float>(), count)});
      centroids = std::move(buffer);
    }
  };

  struct Layer {
    int chosen = 0;                       ///< tokens of clusters that a query head reads
    std::vector<std::int32_t> prompt;     ///< [sets]: tokens at its end
    std::vector<std::int32_t> clustered;  ///< [sets]: tokens up to the end of the last prompt batch
    std::vector<Batch> batches;           ///< of the prompts, then of the answer
    std::size_t prompt_batches = 0;
    std::int32_t clustered_answer = 0;  ///< tokens of each set

    void forget_answer() {
      batches.resize(prompt_batches, Batch{});
      clustered_answer = 0;
    }
    void forget_all() {
      batches.clear();
      prompt_batches = 0;
      clustered.clear();
    }
    std::int32_t first_unclustered(std::size_t set) const { return prompt[set] + clustered_answer; }
    /// The tokens of a cluster, as numbered in all batches.
    std::span<const std::int32_t> members(std::size_t set, std::int32_t cluster) const {
      auto batch = batches.begin();
      for (; cluster >= batch->clusters->clusters(set); ++batch)
        cluster -= batch->clusters->clusters(set);
      return batch->clusters->members(set, cluster);
    }
  };

  /// The scores of each query head's clusters, batch by batch.
  struct Scores {
    std::vector<std::int64_t> first, clusters;  ///< [sets]: in `all`, of each head
    std::int64_t heads_per_set = 1;
    std::vector<float> all;

    std::span<const float> of(std::size_t head, std::size_t set) const {
      const std::int64_t row = static_cast<std::int64_t>(head) % heads_per_set;
      return std::span(all).subspan(static_cast<std::size_t>(first[set] + row * clusters[set]),
                                    static_cast<std::size_t>(clusters[set]));
    }
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
    const bool is_first = layer.batches.empty();
    std::vector<KeyClusters::Part> parts;
    for (std::size_t s = 0; s < view.sets.size(); ++s) {
      const std::int32_t end = layer.prompt[s],
                         begin = is_first ? std::min(s_.sinks, end) : layer.clustered[s],
                         tokens = end - begin;
      const bool given = is_first && s_.first_clusters > 0;
      parts.push_back(
          {{begin, end}, given ? std::min(s_.first_clusters, tokens) : clusters_of(tokens)});
    }
    const std::int32_t first = parts[0].slots.begin;
    const std::string key = fmt::format("clusterkv {} {} {} {} {}", is_first, first,
                                        s_.first_clusters, s_.cluster_tokens, s_.iterations);
    const auto cluster = [&] {
      return std::make_shared<KeyClusters>(view, parts, settings(view, first));
    };
    const bool in_answer = view.memo == nullptr;
    layer.batches.push_back({in_answer ? cluster() : view.memo->get<KeyClusters>(key, cluster)});
    layer.prompt_batches = layer.batches.size();
    layer.clustered = layer.prompt;
  }

  /// Clusters the answer tokens before the current one, `window` tokens at a time.
  void cluster_answer(const LayerView& view, Layer& layer) const {
    while (layer.clustered_answer < full_windows(view)) {
      std::vector<KeyClusters::Part> parts;
      for (std::size_t s = 0; s < view.sets.size(); ++s) {
        const std::int32_t begin = layer.first_unclustered(s);
        parts.push_back({{begin, begin + s_.window}, std::min(s_.window_clusters, s_.window)});
      }
      layer.batches.push_back(
          {std::make_shared<KeyClusters>(view, parts, settings(view, parts[0].slots.begin))});
      layer.clustered_answer += s_.window;
    }
  }

  static Scores score(const LayerView& view, const Layer& layer) {
    const std::int64_t heads = view.heads_per_set(), dim = view.shape.head_dim;
    Scores out;
    out.heads_per_set = heads;
    std::int64_t floats = 0;
    for (std::size_t s = 0; s < view.sets.size(); ++s) {
      std::int64_t clusters = 0;
      for (const Batch& batch : layer.batches) clusters += batch.clusters->clusters(s);
      out.first.push_back(floats);
      out.clusters.push_back(clusters);
      floats += heads * clusters;
    }
    out.all.resize(static_cast<std::size_t>(floats));
    float* memory = view.scratch->get(out.all.size());
    std::vector<VectorScoreJob> jobs;
    for (std::size_t s = 0; s < view.sets.size(); ++s) {
      const MatrixView<float> rows(memory + out.first[s], heads, out.clusters[s]);
      std::int64_t column = 0;
      for (const Batch& batch : layer.batches) {
        const std::int64_t count = batch.clusters->clusters(s);
        if (count == 0) continue;
        const float* centroids =
            batch.centroids->as<float>() + batch.clusters->clusters_before(s) * dim;
        jobs.push_back({.q = MatrixView(view.queries.data, view.shape.heads, dim)
                                 .rows_at(static_cast<std::int64_t>(s) * heads, heads),
                        .vectors = {centroids, count, dim},
                        .out = rows.columns_at(column, count)});
        column += count;
      }
    }
    view.backend->score_vectors(1, jobs);
    view.backend->memory()->copy_floats(memory, out.all.data(), out.all.size());
    return out;
  }

  /// Appends the tokens of the best clusters of a set, which has `size` tokens, in ascending order.
  static void append_best(const Layer& layer, std::size_t set, std::span<const float> scores,
                          std::int32_t size, std::vector<std::int32_t>& slots) {
    std::int64_t tokens = 0;
    for (const Batch& batch : layer.batches) tokens += batch.clusters->tokens(set);
    auto left = static_cast<std::size_t>(std::min<std::int64_t>(layer.chosen, tokens));
    slots.reserve(slots.size() + left);
    SlotSet chosen(size);
    FromTheHighest order(scores);
    while (left > 0) {
      const auto members = layer.members(set, order.take());
      const auto taken = members.first(std::min(left, members.size()));
      chosen.add(taken);
      left -= taken.size();
    }
    chosen.append_to(slots);
  }

  Settings s_;
  std::vector<Layer> layers_;
};

}  // namespace

/// ClusterKV (Liu et al., 2024): the keys of a prompt are clustered by direction in the background
/// of the prefill; each query head reads the clusters whose centroids have the largest product with
/// its query (section III).
MethodInfo clusterkv() {
  using Kind = ParameterInfo::Kind;
  return {
      .name = "clusterkv",
      .summary = "clusters keys by direction and reads the clusters that suit the query",
      .paper =
          "Liu et al., ClusterKV: Manipulating LLM KV Cache in Semantic Space for Recallable "
          "Compression, 2024",
      .budget_unit =
          "tokens read per query head and step, sinks included; tokens of the answer that are in "
          "no cluster yet, the current one among them, are free, up to `window` of them; all of "
          "the answer with window=0; accounting=efficiency: sinks are free and the current token "
          "counts",
      .deviations =
          "one cluster for each 80 tokens, the first centroids are drawn without replacement, "
          "and iterations are always 20, as where its code measures speed (where it measures "
          "accuracy: k-means++ and 400 clusters); clusters are read in the order of their scores "
          "(where it measures speed: in that of a sort that is not finished), and the first "
          "tokens of the last one; an answer's clusters are 4 for 320 tokens as in the paper "
          "(code: 8, and none where it measures accuracy), made in the step after them (code: in "
          "that of their last one, which may read tokens twice); what a later turn adds, the "
          "last answer included, is clustered as one batch, where the code knows one prompt "
          "only; a prompt within the budget is clustered when the answer exceeds it, whose code "
          "for accuracy reads everything then (window=0); its runs of LongBench feed the question, "
          "at least the last 100 characters of a prompt, token by token through steps that select "
          "and never clusters it, where here all of a prompt is dense and clustered; with "
          "evictions all is clustered anew; equal scores: the earlier cluster; the "
          "device keeps the tokens that a query head read in the step before, and begins without "
          "any",
      .parameters =
          {{"budget", Kind::kBudget, "1024", "tokens or share", "tokens read per step"},
           {"sinks", Kind::kInteger, "16", "tokens",
            "first tokens that are always read and in no cluster"},
           {"dense_layers", Kind::kInteger, "2", "layers", "first layers that read everything"},
           {"nlist", Kind::kInteger, "0", "clusters",
            "of the first prompt; 0: as cluster_tokens says"},
           {"cluster_tokens", Kind::kInteger, "80", "tokens", "of a prompt for each cluster", 1},
           {"iterations", Kind::kInteger, "20", "iterations", "of k-means", 0, 300},
           {"window", Kind::kInteger, "320", "tokens",
            "of an answer that are clustered together, and read by every step until then; 0: none "
            "are ever clustered"},
           {"window_clusters", Kind::kInteger, "4", "clusters", "of such tokens", 1},
           {"accounting", Kind::kChoice, "accuracy", "accuracy|efficiency",
            "what the budget counts: sinks and chosen tokens, or the chosen and the current one"}},
      .budget_traits = {.per_query_head = true},
      .make =
          [](const Parameters& p) {
            const int sinks = p.choice("accounting") == "accuracy" ? p.integer("sinks") : 0;
            check_room("clusterkv", p.budget("budget"), sinks, fmt::format("{} sinks", sinks));
            Policies out;
            out.selection = std::make_unique<ClusterKv>(
                ClusterKv::Settings{.budget = p.budget("budget"),
                                    .sinks_count = p.choice("accounting") == "accuracy",
                                    .sinks = p.integer("sinks"),
                                    .dense_layers = p.integer("dense_layers"),
                                    .first_clusters = p.integer("nlist"),
                                    .cluster_tokens = p.integer("cluster_tokens"),
                                    .iterations = p.integer("iterations"),
                                    .window = p.integer("window"),
                                    .window_clusters = p.integer("window_clusters")});
            return out;
          },
      .placement = {{"placement", "host"}, {"cache_block", "1"}, {"cache_rule", "previous"}},
      .compared_as = {{"window", ""}}};
}

}  // namespace turnbench
