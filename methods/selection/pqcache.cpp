#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "common/error.h"
#include "inference/model/model_config.h"
#include "methods/method.h"
#include "methods/parts/budget_parameters.h"
#include "methods/parts/cluster_costs.h"
#include "methods/parts/layer_codes.h"
#include "methods/parts/top_k_selection.h"

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

class PqCache : public Cloned<PqCache, SegmentSelection>, public IndexTransfer {
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

  SelectionTraits traits() const override {
    if (s_.later_turns == LaterTurns::kRebuild) return {};
    return {.keeps_cache = s_.later_turns != LaterTurns::kReprefill};
  }

  void after_prefill(const LayerView& view) override {
    while (std::ssize(layers_) < view.shape.layers) layers_.emplace_back(s_.codes);
    SegmentSelection::after_prefill(view);
    Layer& layer = layers_[view.layer];
    layer.is_moved = false;
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
    const TokenSegments parts = segments(size.prompt_tokens);
    const auto codes = static_cast<std::size_t>(s_.codes.parts) *
                       static_cast<std::size_t>(size.sets) * static_cast<std::size_t>(size.tokens);
    const bool has_codes = known != nullptr ? !layers_[size.layer].codes.empty()
                                            : size.tokens - s_.sinks > s_.codes.count();
    return {.everything = !has_codes || size.tokens <= s_.sinks + parts.local + parts.chosen,
            .pinned_tokens = s_.sinks + parts.local + 1,
            .step_tokens = parts.chosen,
            .first = s_.sinks,
            .index_bytes = size.key_elements(size.tokens) * sizeof(float) + 2 * codes};
  }

  /// Transfers the codes of the layer before its queries are computed.
  void prefetch(int layer, const IndexPath& path) override {
    Layer& moved = layers_[layer];
    moved.codes.move(moved_codes(layer), path);
    moved.is_moved = true;
  }

  std::vector<std::pair<std::string, double>> counters() const override {
    int most = 0;
    for (const Layer& layer : layers_) most = std::max(most, layer.codes.iterations());
    return {{"kmeans_iterations", most}};
  }

 protected:
  /// Both the local window and the chosen tokens are rounded down.
  TokenSegments segments(int prompt_tokens) const override {
    const double tokens = s_.budget.is_ratio
                              ? std::max(0, prompt_tokens - s_.sinks) * s_.budget.value
                              : std::max(0, s_.budget.tokens(0) - s_.sinks);
    return {s_.sinks, whole_tokens(tokens * s_.local), whole_tokens(tokens * (1 - s_.local))};
  }
  Ranking ranking(const LayerView&) const override {
    return {.reduction = HeadReduction::kSumOfSoftmax};
  }

  std::vector<Candidates> begin_step(const LayerView& view) override {
    Layer& layer = layers_[view.layer];
    remember_sizes(layer, view);
    if (layer.codes.empty()) return {};
    const TokenSegments parts = segments(view.prompt_tokens);
    std::vector<int> end;  // ends of the candidates
    for (const KvHeadCache& set : view.sets) end.push_back(parts.end(set.size()));
    layer.codes.code_until(view, end);
    CodeBuffer& buffer = codes_on_device(view.layer);
    buffer.wait();
    layer.codes.copy_to(buffer, view.backend->memory());  // codes computed by this sequence
    return segment_lists(view, false, true);
  }
  /// Estimates scores from codes.
  void score(const LayerView& view, std::size_t set, MatrixView<float> scores,
             SelectionJobs& jobs) override {
    Layer& layer = layers_[view.layer];
    layer.codes.add_score_jobs(view, set, view.step_queries(set), codes_on_device(view.layer),
                               scores, jobs.codes);
  }

 private:
  bool rebuilds() const {
    return s_.later_turns == LaterTurns::kRebuild || s_.later_turns == LaterTurns::kReprefill;
  }

  struct Layer {
    explicit Layer(const CodeSettings& settings) : codes(settings) {}
    std::vector<int> seen;  ///< tokens of each set at the last call
    LayerCodes codes;
    CodeBuffer on_device;   ///< unless a transfer brings the codes
    bool is_moved = false;  ///< transfers bring the codes: the keys are offloaded
  };

  static void remember_sizes(Layer& layer, const LayerView& view) {
    layer.seen.clear();
    for (const KvHeadCache& set : view.sets) layer.seen.push_back(set.size());
  }

  /// With offloaded keys, the device has the codes of two layers at a time.
  CodeBuffer& moved_codes(int layer) { return moved_[static_cast<std::size_t>(layer) % 2]; }

  CodeBuffer& codes_on_device(int layer) {
    Layer& l = layers_[layer];
    return l.is_moved ? moved_codes(layer) : l.on_device;
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
          "tokens read per KV head and step: a ratio refers to the prompt without its sinks, a "
          "number includes the sinks; the numbers of recent and of best tokens are rounded down; "
          "the current token is not counted",
      .deviations =
          "sinks and local are those of the official scripts; a step reads the current token "
          "before the local window moves; ties go to the lower position; k-means as in "
          "scikit-learn (Lloyd): it ends if no label changes, or if the squared moves of the "
          "centroids sum to at most 1e-4 times the mean variance of the dimensions, and then "
          "labels the tokens once more; an empty cluster takes one of the tokens farthest from "
          "their centroids; the initial tokens do not depend on the manifest's seed; centroids and "
          "estimates have 32 bits (official code: 16); errors of the official code are not "
          "reproduced: codes of stale rows for prompt tokens of the local window, the current "
          "token in the place of the one that leaves this window, a ring index that is one too "
          "large in all layers after the first, blocks of the previous prompt as cache hits in a "
          "first step, stale rows of a cached block that was not full, and lost past tokens of a "
          "short prompt; a prompt with no more tokens than sinks and centroids is read whole; "
          "estimates that underflow are ties",
      .parameters = {{"budget", Kind::kBudget, "0.2", "tokens or share", "tokens read per step"},
                     {"sinks", Kind::kInteger, "32", "tokens", "first tokens, always read"},
                     {"local", Kind::kNumber, "0.5", "share",
                      "share of the budget for the most recent tokens", 0, 1},
                     {"m", Kind::kInteger, "2", "parts",
                      "PQ sub-vectors per key, each with one code", 1, 16},
                     {"b", Kind::kInteger, "6", "bits", "bits per code", 1, 8},
                     {"max_iter", Kind::kInteger, "10", "iterations",
                      "maximum iterations of k-means; 0: as many as `costs` allows", 0, 300},
                     {"costs", Kind::kFile, "none", "file",
                      "times of prefill and clustering, written by the action fit-costs"},
                     {"mt", Kind::kChoice, "rebuild", "rebuild|reprefill|perturn|extend",
                      "in later turns; rebuild: cluster all cached keys again; reprefill: the "
                      "same, with history reprefill only; perturn: separate codebooks for new "
                      "tokens; extend: codes of the nearest existing centroids"}},
      .make =
          [](const Parameters& p) {
            const auto costs = p.file("costs");
            if ((p.integer("max_iter") == 0) != costs.has_value()) {
              throw input_error(
                  "pqcache: found max_iter={} {} costs, expected max_iter=0 with them "
                  "and another number without",
                  p.integer("max_iter"), costs ? "with" : "without");
            }
            return Policies{
                .selection = std::make_unique<PqCache>(PqCache::Settings{
                    .budget = p.budget("budget"),
                    .sinks = checked_sinks("pqcache", p),
                    .local = p.number("local"),
                    .codes = {p.integer("m"), p.integer("b"), p.integer("max_iter")},
                    .costs = costs ? std::optional(ClusterCosts::load(*costs)) : std::nullopt,
                    .later_turns = parse_later_turns(p.choice("mt"))})};
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
