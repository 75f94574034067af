#include <cmath>

#include "methods/parts/budgeted_eviction.h"
#include "methods/parts/layer_rows.h"

namespace turnbench {
namespace {

/// The negative cosine similarity of each key to the mean of all normalised keys of its set; a mean
/// over the sets if the kept set has several.
class KeyDistance : public EvictionScorer {
 public:
  std::vector<float> scores(const LayerView& view, const KeptSet& set,
                            int candidates) const override {
    std::vector<float> out(static_cast<std::size_t>(candidates), 0);
    const std::vector<const KvHeadCache*> caches = caches_of(view, set);
    for (const KvHeadCache* cache : caches) {
      const RowsOnHost keys(view, *cache, KvRow::kKey, 0, set.tokens);
      const std::vector<double> norms = norms_of(keys);
      std::vector<double> anchor(static_cast<std::size_t>(keys.width()), 0);  // [head_dim]
      for (int i = 0; i < set.tokens; ++i) {
        for (std::size_t d = 0; d < anchor.size(); ++d) anchor[d] += keys.row(i)[d] / norms[i];
      }
      const double length = norm_of<double>(anchor);
      for (int i = 0; i < candidates; ++i) {
        double product = 0;
        for (std::size_t d = 0; d < anchor.size(); ++d) product += anchor[d] * keys.row(i)[d];
        out[i] -=
            static_cast<float>(product / (length * norms[i] * static_cast<double>(caches.size())));
      }
    }
    return out;
  }

 private:
  static constexpr double kLeastNorm = 1e-12;  // so that no key divides by zero

  template <typename T>
  static double norm_of(std::span<const T> vector) {
    double sum = 0;
    for (const T x : vector) sum += static_cast<double>(x) * static_cast<double>(x);
    return std::max(std::sqrt(sum), kLeastNorm);
  }
  static std::vector<double> norms_of(const RowsOnHost& keys) {
    std::vector<double> out;
    for (int i = 0; i < keys.rows(); ++i) out.push_back(norm_of(keys.row(i)));
    return out;
  }
};

std::shared_ptr<const EvictionScorer> keydiff_scorer(const Parameters&) {
  return std::make_shared<KeyDistance>();
}

}  // namespace

/// Keeps the tokens whose keys differ most from the others: keys normalised -> mean (the anchor) ->
/// negative cosine similarity of each key to it -> top-k (Park et al., 2025, Algorithm 1).
MethodInfo keydiff() {
  using Kind = ParameterInfo::Kind;
  return {
      .name = "keydiff",
      .summary = "keeps the tokens whose keys are least similar to the mean key",
      .paper =
          "Park et al., KeyDiff: Key Similarity-Based KV Cache Eviction for Long-Context LLM "
          "Inference in Resource-Constrained Environments, 2025",
      .budget_unit =
          "prompt tokens kept per KV head, window included; generated tokens are not counted",
      .deviations =
          "evicts once, at the end of a prompt, unless compress_block is set; the paper evicts "
          "after "
          "each block of the prompt and while decoding (kvpress: KeyDiffPress evicts once, "
          "BlockPress "
          "after each block); "
          "keys are those after RoPE, as in kvpress",
      .parameters = {{"budget", Kind::kBudget, "1024", "tokens or share",
                      "prompt tokens kept per set"},
                     {"window", Kind::kInteger, "0", "tokens",
                      "last tokens of the prompt, always kept", 0, 4096},
                     layers_parameter()},
      .scorer = keydiff_scorer,
      .make = [](const Parameters& p) {
        return Policies{
            .eviction = std::make_unique<BudgetedEviction>(BudgetedEviction::Settings{
                .window = budget_and_window_settings("keydiff", p), .scorer = keydiff_scorer(p)})};
      }};
}

}  // namespace turnbench
