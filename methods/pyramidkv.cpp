#include "methods/budgets.h"
#include "methods/window_scores.h"

namespace turnbench {
namespace {

class PyramidKv : public EvictionPolicy {
 public:
  PyramidKv(const WindowSettings& s, int beta, bool exact) : s_(s), beta_(beta), exact_(exact) {}
  std::unique_ptr<EvictionPolicy> clone() const override {
    return std::make_unique<PyramidKv>(*this);
  }
  int window() const override { return s_.window; }

  KeepSets after_prefill(const LayerView& view) override {
    KeepSets out;
    for (const KeptSet& set : kept_sets(view, s_.per_query_head)) {
      const int base = s_.choices(set.tokens), candidates = set.tokens - s_.window;
      // Short prompts (and those that fit) have no room for a pyramid.
      const int count = set.tokens < 2 * base || base >= candidates
                            ? base
                            : pyramid_budgets(view.shape.layers, base, beta_, candidates,
                                              exact_)[static_cast<std::size_t>(view.layer)];
      out.slots.push_back(s_.kept(view, set, count));
    }
    return out;
  }

 private:
  WindowSettings s_;
  int beta_;
  bool exact_;
};

}  // namespace

/// SnapKV with more tokens in low layers and fewer in high ones, linearly.
MethodInfo pyramidkv() {
  using Kind = ParameterInfo::Kind;
  return {
      .name = "pyramidkv",
      .summary = "SnapKV with budgets that shrink from the first layer to the last",
      .paper =
          "Cai et al., PyramidKV: Dynamic KV Cache Compression based on Pyramidal Information "
          "Funneling, 2024",
      .counts =
          "prompt tokens kept per set in the mean over the layers, the window included; generated "
          "tokens come on top",
      .deviates =
          "the layers' budgets sum to the mean exactly, where the official code floors the step "
          "and spends up to 5% more (pyr_exact=false); one kept set per KV head by default",
      .parameters = and_also(window_parameters("1024", "8", "7"),
                             {{"beta", Kind::kInteger, "20", "",
                               "the last layer chooses 1/beta of the mean, the first the rest of "
                               "twice the mean",
                               1, 10000},
                              {"pyr_exact", Kind::kFlag, "true", "",
                               "layers sum to the budget; false: the official floored step"}}),
      .make = [](const Parameters& p) {
        Policies out;
        out.eviction = std::make_unique<PyramidKv>(window_settings("pyramidkv", p),
                                                   p.integer("beta"), p.flag("pyr_exact"));
        return out;
      }};
}

}  // namespace turnbench
