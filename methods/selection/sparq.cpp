#include <algorithm>
#include <cmath>
#include <utility>

#include "inference/backend/backend.h"
#include "methods/method.h"
#include "methods/parts/budget_parameters.h"
#include "methods/parts/key_columns.h"
#include "methods/parts/per_layer.h"
#include "methods/parts/scores.h"
#include "methods/parts/value_means.h"

namespace turnbench {
namespace {

class SparQ : public Cloned<SparQ, SegmentSelection> {
 public:
  enum class MeanValue { kAuto, kOn, kOff };
  struct Settings {
    Budget budget;
    int sinks;     ///< tokens
    double local;  ///< share of the budget
    int dims;      ///< dimensions of a query that are read
    bool of_softmax;
    MeanValue mean;
  };
  explicit SparQ(const Settings& s) : s_(s) {}

  void after_prefill(const LayerView& view) override {
    SegmentSelection::after_prefill(view);
    Layer& layer = layers_[view.layer];
    layer.keys.build(view, view.goes_to_host && !demand(prompt_size(view), &view).everything);
    if (blends(view)) layer.values.build(view);
  }

  /// The index: a transposed copy of the keys.
  DeviceNeeds demand(const PromptSize& size, const LayerView*) const override {
    const TokenSegments parts = segments(size.prompt_tokens);
    const int tokens = parts.sinks + parts.local + parts.chosen;
    return {.everything = size.tokens <= tokens,
            .step_tokens = tokens,
            .index_bytes = size.key_elements(size.tokens) * size_of(size.dtype)};
  }
  /// Sinks and window are gathered like the others: no token stays on the device.
  std::vector<SlotRange> pinned(int, int, int tokens) const override {
    return {{tokens - 1, tokens}};
  }

 protected:
  TokenSegments segments(int prompt_tokens) const override {
    const double tokens = s_.budget.is_ratio ? prompt_tokens * s_.budget.value
                                             : std::max(0, s_.budget.tokens(0) - s_.sinks);
    const int local = whole_tokens(tokens * s_.local);
    return {s_.sinks, local, whole_tokens(tokens) - local};
  }
  Ranking ranking(const LayerView& view) const override {
    if (sums_queries(view)) return {};
    return {.reduction = s_.of_softmax ? HeadReduction::kSumOfSoftmax : HeadReduction::kSum,
            .scores_every_set = blends(view)};
  }

  std::vector<Candidates> begin_step(const LayerView& view) override {
    Layer& layer = layers_[view.layer];
    layer.keys.begin_step(view);
    std::vector<Candidates> out = segment_lists(view);
    if (reads_all(out)) return {};
    const std::vector<int> first = layer.keys.extend(view);
    if (blends(view)) layer.values.extend(view, layer.keys.tokens(), first);
    layer.keys.set_queries(view, read_queries(view));
    for (Candidates& list : out) list.rows = sums_queries(view) ? 1 : list.rows;
    return out;
  }
  void score(const LayerView& view, std::size_t set, MatrixView<float> scores,
             SelectionJobs& jobs) override {
    layers_[view.layer].keys.add_scores(view, set, scores, jobs);
  }

  /// Weights attention by the estimated mass of its tokens; the mean value approximates the others.
  void end_step(const LayerView& view, std::span<const MatrixView<float>> scores,
                Selection& selection) override {
    if (!blends(view)) return;
    Layer& layer = layers_[view.layer];
    Buffer& weights = layer.weights.value;
    if (weights.size() == 0) {
      weights = Buffer(static_cast<std::size_t>(view.shape.heads) * sizeof(float),
                       view.backend->memory());
    }
    std::vector<SlotMassJob> jobs;
    for (std::size_t s = 0; s < view.sets.size(); ++s) {
      jobs.push_back({scores[s], selection.slots[s],
                      weights.as<float>() + static_cast<std::int64_t>(s) * view.heads_per_set()});
    }
    view.backend->slot_mass(jobs);
    selection.blend = {weights.as<float>(), layer.values.means(view)};
  }

 private:
  struct Layer {
    KeyColumns keys;
    ValueMeans values;
    Unshared<Buffer> weights;  ///< of the blend: [query heads], in the backend's memory
  };

  bool blends(const LayerView& view) const {
    return s_.mean == MeanValue::kOn || (s_.mean == MeanValue::kAuto && view.heads_per_set() == 1);
  }

  /// Whether only scores summed over heads are needed: they equal the scores of the summed queries.
  bool sums_queries(const LayerView& view) const { return !s_.of_softmax && !blends(view); }

  /// The queries of each set, summed over its heads if possible.
  std::vector<PartialQuery> read_queries(const LayerView& view) const {
    std::vector<PartialQuery> out = partial_queries(view, s_.dims);
    if (!sums_queries(view)) return out;
    for (PartialQuery& query : out) {
      const MatrixView<const float> q(query.rows.data(), view.heads_per_set(), view.shape.head_dim);
      query.rows = weighted_sum(q, std::exchange(query.factors, {}));
    }
    return out;
  }

  /// Sums the rows of q, weighted by factors: [head_dim].
  static std::vector<float> weighted_sum(MatrixView<const float> q,
                                         const std::vector<float>& factors) {
    std::vector<float> out;
    for (std::int64_t d = 0; d < q.columns; ++d) {
      double sum = 0;
      for (std::int64_t h = 0; h < q.rows; ++h) sum += double{factors[h]} * q(h, d);
      out.push_back(static_cast<float>(sum));
    }
    return out;
  }

  Settings s_;
  PerLayer<Layer> layers_;
};

}  // namespace

/// SparQ (Ribar et al., 2024): scores from the largest dimensions of a query and transposed keys;
/// attention to the best tokens is blended with the mean value (section 3, algorithm 1).
MethodInfo sparq() {
  using Kind = ParameterInfo::Kind;
  return {
      .name = "sparq",
      .summary = "estimates scores from a query's largest dimensions and reads the best tokens",
      .paper = "Ribar et al., SparQ Attention: Bandwidth-Efficient LLM Inference, 2024",
      .budget_unit =
          "tokens read per KV head and step, recent ones included: a number includes the sinks; "
          "with a ratio, they are read in addition to floor(ratio times the tokens of the prompt); "
          "the current token is not counted",
      .deviations =
          "agg=logits is the sum over the heads of a group in the official code, agg=softmax that "
          "of the paper's text; local is the value of the paper's text for H2O; the mean value is "
          "that of all cached tokens, summed in double precision; PQCache's comparison has sinks, "
          "a ratio budget, local=0.5, mean_v=off and placement=host; ties go to the lower "
          "position; agg=softmax: probabilities below e^-87 count as 0, so their tokens are ties",
      .parameters = {{"budget", Kind::kBudget, "128", "tokens or share", "tokens read per step"},
                     {"sinks", Kind::kInteger, "0", "tokens", "first tokens, always read"},
                     {"local", Kind::kNumber, "0.25", "share",
                      "share of the budget for the most recent tokens", 0, 1},
                     {"r", Kind::kInteger, "32", "dimensions",
                      "dimensions of a query that are read", 1},
                     {"agg", Kind::kChoice, "logits", "logits|softmax",
                      "values that are summed over the heads of a group"},
                     {"mean_v", Kind::kChoice, "auto", "auto|on|off",
                      "blend with the mean value; auto: if each query head has its own keys"}},
      .make = [](const Parameters& p) {
        using Mean = SparQ::MeanValue;
        const std::string& mean = p.choice("mean_v");
        return Policies{.selection = std::make_unique<SparQ>(
                            SparQ::Settings{.budget = p.budget("budget"),
                                            .sinks = checked_sinks("sparq", p),
                                            .local = p.number("local"),
                                            .dims = p.integer("r"),
                                            .of_softmax = p.choice("agg") == "softmax",
                                            .mean = mean == "on"    ? Mean::kOn
                                                    : mean == "off" ? Mean::kOff
                                                                    : Mean::kAuto})};
      }};
}

}  // namespace turnbench
