#include <algorithm>
#include <array>
#include <optional>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "common/error.h"
#include "inference/model/model_config.h"
#include "methods/method.h"
#include "methods/parts/budget_parameters.h"
#include "methods/parts/cluster_costs.h"
#include "methods/parts/layer_codes.h"
#include "methods/parts/scores.h"

namespace turnbench {
namespace {

/// Treatment of the codes in the prompts of later turns (PQCache, section 5).
enum class LaterTurns {
  kRebuild,    ///< all keys are clustered again, whether or not they were recomputed
  kReprefill,  ///< all keys are recomputed and clustered again
  kPerTurn,    ///< the new tokens get separate codebooks
  kExtend      ///< the new tokens get the codes of the nearest existing centroids
};

LaterTurns parse_later_turns(const std::string& name) {
  return name == "perturn"     ? LaterTurns::kPerTurn
         : name == "extend"    ? LaterTurns::kExtend
         : name == "reprefill" ? LaterTurns::kReprefill
                               : LaterTurns::kRebuild;
}

class PqCache : public SelectionPolicy, public IndexTransfer {
 public:
  struct Settings {
    Budget budget;
    int sinks;           ///< tokens
    double local;        ///< share of the budget
    CodeSettings codes;  ///< iterations is 0 if `costs` determines them
    std::optional<ClusterCosts> costs;
    LaterTurns later_turns;
  };
  explicit PqCache(const Settings& s) : s_(s) {}

  std::unique_ptr<SelectionPolicy> clone() const override {
    return std::make_unique<PqCache>(*this);
  }
  SelectionTraits traits() const override {
    if (s_.later_turns == LaterTurns::kRebuild) return {};
    return {.keeps_cache = s_.later_turns != LaterTurns::kReprefill};
  }

  void after_prefill(const LayerView& view) override {
    while (std::ssize(layers_) < view.shape.layers) layers_.emplace_back(s_.codes);
    Layer& layer = layers_[static_cast<std::size_t>(view.layer)];
    std::tie(layer.local, layer.chosen) = local_and_chosen(view.prompt_tokens);
    if (rebuilds()) {
      layer.codes = LayerCodes(s_.codes);
      layer.on_device.clear();
    }
    std::vector<int> first(view.sets.size(), s_.sinks);
    if (!layer.codes.empty()) {
      first = layer.seen;  // all tokens before the turn's prompt, including the last local window
      layer.codes.code_until(view, first);
    }
    remember_sizes(layer, view);
    if (!layer.codes.empty() && s_.later_turns == LaterTurns::kExtend) return;
    int rows = view.sets[0].size() - first[0];
    for (std::size_t s = 0; s < first.size(); ++s)
      rows = std::min(rows, view.sets[s].size() - first[s]);
    // Too few rows for the centroids.  Without any codebook, the layer reads everything.
    if (rows <= s_.codes.count()) return;
    layer.codes.add_book(view, s_.costs ? s_.costs->iterations(rows) : s_.codes.iterations, first);
  }

  /// The index: the copy of the keys that is clustered, and their codes on host and device.
  DeviceNeeds demand(const PromptSize& size, const LayerView* known) const override {
    const auto [local, chosen] = local_and_chosen(size.prompt_tokens);
    const auto codes = static_cast<std::size_t>(s_.codes.parts) *
                       static_cast<std::size_t>(size.sets) * static_cast<std::size_t>(size.tokens);
    const bool has_codes = known != nullptr
                               ? !layers_[static_cast<std::size_t>(size.layer)].codes.empty()
                               : size.tokens - s_.sinks > s_.codes.count();
    return {.everything = !has_codes || size.tokens <= s_.sinks + local + chosen,
            .pinned_tokens = s_.sinks + local + 1,
            .step_tokens = chosen,
            .first = s_.sinks,
            .index_bytes = size.key_elements(size.tokens) * sizeof(float) + 2 * codes};
  }

  std::vector<SlotRange> pinned(int layer, int /*set*/, int tokens) const override {
    return sinks_and_window(s_.sinks, tokens - 1 - layers_[static_cast<std::size_t>(layer)].local,
                            tokens);
  }

  /// Transfers the codes of the layer before its queries are computed.
  void prefetch(int layer, const IndexPath& path) override {
    layers_[static_cast<std::size_t>(layer)].codes.move(moved_codes(layer), path);
  }

  std::vector<std::pair<std::string, double>> counters() const override {
    int most = 0;
    for (const Layer& layer : layers_) most = std::max(most, layer.codes.iterations());
    return {{"kmeans_iterations", most}};
  }

  /// Codes -> estimated scores -> softmax over the candidates -> summed over the heads of a set ->
  /// top-k between the sinks and the local window.
  Selection select(const LayerView& view) override {
    Layer& layer = layers_[static_cast<std::size_t>(view.layer)];
    remember_sizes(layer, view);
    if (layer.codes.empty()) return {};
    const std::size_t sets = view.sets.size();
    std::vector<int> end;  // ends of the candidates, slots [sinks, end)
    for (const KvHeadCache& set : view.sets)
      end.push_back(std::max(s_.sinks, set.size() - 1 - layer.local));
    layer.codes.code_until(view, end);
    CodeBuffer& codes = codes_on_device(view, layer);

    const std::int64_t dim = view.shape.head_dim, heads = view.heads_per_set();
    const MatrixView<const float> queries(view.queries.data, view.shape.heads, dim);
    std::int64_t floats = 0;
    for (std::size_t s = 0; s < sets; ++s) floats += (heads + 1) * (end[s] - s_.sinks);
    float* memory = view.scratch->get(static_cast<std::size_t>(floats));
    std::vector<CodeScoreJob> scores;
    std::vector<ReduceHeadsJob> reductions;
    std::vector<TopKJob> best;
    std::vector<std::vector<std::int32_t>> chosen(sets);
    for (std::size_t s = 0; s < sets; ++s) {
      const std::int64_t n = end[s] - s_.sinks;
      if (n <= layer.chosen) continue;  // all candidates are read
      const MatrixView<float> estimates(memory, heads, n), summed(memory + heads * n, 1, n);
      memory += (heads + 1) * n;
      layer.codes.add_score_jobs(view, s,
                                 queries.rows_at(static_cast<std::int64_t>(s) * heads, heads),
                                 codes, estimates, scores);
      reductions.push_back({estimates, HeadReduction::kSumOfSoftmax, summed});
      best.push_back({{summed.data, static_cast<std::size_t>(n)}, layer.chosen, &chosen[s]});
    }
    view.backend->score_codes(view.scale, scores);
    view.backend->reduce_heads(reductions);
    view.backend->top_k(best);

    Selection out;
    for (std::size_t s = 0; s < sets; ++s) {
      const int n = view.sets[s].size();
      if (end[s] - s_.sinks <= layer.chosen) {
        out.slots.push_back(all_slots(n));
        continue;
      }
      std::vector<std::int32_t> slots = all_slots(s_.sinks);
      for (const std::int32_t j : chosen[s]) slots.push_back(s_.sinks + j);
      out.slots.push_back(with_tail(std::move(slots), end[s], n));  // [sinks + k + local + 1]
    }
    return out;
  }

 private:
  /// Sizes of the parts in a turn, which depend on the length of its prompt.  Both are rounded
  /// down.
  std::pair<int, int> local_and_chosen(int prompt_tokens) const {
    const double tokens = s_.budget.is_ratio
                              ? std::max(0, prompt_tokens - s_.sinks) * s_.budget.value
                              : std::max(0, s_.budget.tokens(0) - s_.sinks);
    return {static_cast<int>(tokens * s_.local), static_cast<int>(tokens * (1 - s_.local))};
  }

  bool rebuilds() const {
    return s_.later_turns == LaterTurns::kRebuild || s_.later_turns == LaterTurns::kReprefill;
  }

  struct Layer {
    explicit Layer(const CodeSettings& settings) : codes(settings) {}
    int local = 0, chosen = 0;  ///< tokens
    std::vector<int> seen;      ///< tokens of each set at the last call
    LayerCodes codes;
    CodeBuffer on_device;  ///< if the layer is on the device
  };

  static void remember_sizes(Layer& layer, const LayerView& view) {
    layer.seen.clear();
    for (const KvHeadCache& set : view.sets) layer.seen.push_back(set.size());
  }

  /// With offloaded keys, the device has the codes of two layers at a time.
  CodeBuffer& moved_codes(int layer) { return moved_[static_cast<std::size_t>(layer) % 2]; }

  CodeBuffer& codes_on_device(const LayerView& view, Layer& layer) {
    CodeBuffer& buffer = view.index_path.link ? moved_codes(view.layer) : layer.on_device;
    buffer.wait();
    layer.codes.copy_to(buffer, view.backend->memory());  // codes computed by this sequence
    return buffer;
  }

  Settings s_;
  std::vector<Layer> layers_;
  std::array<CodeBuffer, 2> moved_;
};

}  // namespace

MethodAction fit_pqcache_costs();

/// PQCache (Zhang et al., 2024): keys are product-quantised in the background of the prefill; each
/// step estimates all scores from codes and transfers the keys and values of the best tokens from
/// host memory, with a block cache on the device (section 3, algorithms 1 and 2).
MethodInfo pqcache() {
  using Kind = ParameterInfo::Kind;
  return {
      .name = "pqcache",
      .summary = "estimates scores from product-quantised keys and reads the best tokens",
      .paper =
          "Zhang et al., PQCache: Product Quantization-based KVCache for Long Context LLM "
          "Inference, 2024",
      .budget_unit =
          "tokens read per KV head and step: a share counts the prompt without its sinks, a number "
          "counts the sinks too; recent and best tokens are rounded down each; the current token "
          "is free",
      .deviations =
          "sinks and the half that goes to recent tokens come from its scripts; the current token "
          "is read before an old one leaves the local window; ties go to the lower position; "
          "k-means as scikit-learn's, but for what kmeans.h says; centroids and estimates have 32 "
          "bits (code: 16); four errors of its code are not repeated: codes of stale rows for "
          "prompt tokens of the local window; the current token in the place of the one that "
          "leaves this window; a ring index that layers after the first find advanced by one; "
          "blocks of the previous prompt as cache hits in a first step; a prompt of no more "
          "tokens than sinks and centroids is read whole; estimates that underflow are ties",
      .parameters = {{"budget", Kind::kBudget, "0.2", "tokens or share", "tokens read per step"},
                     {"sinks", Kind::kInteger, "32", "tokens", "first tokens that are always read"},
                     {"local", Kind::kNumber, "0.5", "share",
                      "part of the budget that goes to the most recent tokens", 0, 1},
                     {"m", Kind::kInteger, "2", "parts", "of a key, each with a code of its own", 1,
                      16},
                     {"b", Kind::kInteger, "6", "bits", "of a code", 1, 8},
                     {"max_iter", Kind::kInteger, "10", "iterations",
                      "of k-means, at most; 0: as many as `costs` leave time for", 0, 300},
                     {"costs", Kind::kFile, "none", "file",
                      "what prefill and clustering take, as fit-costs writes it"},
                     {"mt", Kind::kChoice, "rebuild", "rebuild|reprefill|perturn|extend",
                      "later turns: all cached keys are clustered anew, the same with history "
                      "reprefill alone, codebooks of their own for new tokens, or the nearest "
                      "centroids"}},
      .make =
          [](const Parameters& p) {
            const auto costs = p.file("costs");
            if ((p.integer("max_iter") == 0) != costs.has_value()) {
              throw input_error(
                  "pqcache: found max_iter={} {} costs, expected max_iter=0 with them "
                  "and another number without",
                  p.integer("max_iter"), costs ? "with" : "without");
            }
            check_room("pqcache", p.budget("budget"), p.integer("sinks"),
                       fmt::format("{} sinks", p.integer("sinks")));
            Policies out;
            out.selection = std::make_unique<PqCache>(PqCache::Settings{
                .budget = p.budget("budget"),
                .sinks = p.integer("sinks"),
                .local = p.number("local"),
                .codes = {p.integer("m"), p.integer("b"), p.integer("max_iter")},
                .costs = costs ? std::optional(ClusterCosts::load(*costs)) : std::nullopt,
                .later_turns = parse_later_turns(p.choice("mt"))});
            return out;
          },
      .placement = {{"placement", "host"},
                    {"cache_tokens", "4096"},
                    {"cache_block", "128"},
                    {"cache_rule", "lfu"}},
      .check_model =
          [](const Parameters& p, const ModelConfig& config) {
            check_parts(p.integer("m"), config.head_dim);
          },
      .actions = {fit_pqcache_costs}};
}

}  // namespace turnbench
