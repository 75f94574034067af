#include "methods/method.h"

namespace turnbench {
namespace {

using ParameterKind = ParameterInfo::Kind;

/// Row i sees key j <= i if i - j < local or j < sinks; the last `dense_rows` rows of the pass are
/// dense.
class BandPrefill : public Cloned<BandPrefill, PrefillPolicy> {
 public:
  struct Settings {
    int sinks, local;  ///< tokens
    int dense_rows;
    int first_layer;  ///< first sparse layer
    bool sparse_followup;
  };
  explicit BandPrefill(const Settings& s) : s_(s) {}

  /// The band depends only on absolute positions, so that rows of earlier turns are reproduced; the
  /// dense rows depend on the pass.
  bool reuses_cached_prompt() const override { return s_.dense_rows == 0 && s_.sparse_followup; }

  std::vector<HeadPattern> plan(const LayerView& view) override {
    if (view.layer < s_.first_layer || (view.first_position > 0 && !s_.sparse_followup)) return {};
    return std::vector<HeadPattern>(view.shape.heads,
                                    {.kind = HeadPattern::Kind::kBand,
                                     .sinks = s_.sinks,
                                     .local = s_.local,
                                     .dense_rows = std::min(s_.dense_rows, view.rows - 1)});
  }

 private:
  Settings s_;
};

std::vector<ParameterInfo> band_parameters() {
  return {{"n_init", ParameterKind::kInteger, "128", "tokens", "first tokens that every row sees"},
          {"n_local", ParameterKind::kInteger, "3968", "tokens",
           "most recent tokens that a row sees, itself included", 1},
          {"starting_layer", ParameterKind::kInteger, "-1", "layer",
           "first sparse layer; lower layers are dense", -1},
          {"followup", ParameterKind::kChoice, "sparse", "sparse|dense",
           "prefill of later turns on a kept cache"}};
}

Policies make_band(const Parameters& p, int dense_rows) {
  return Policies{.prefill = std::make_unique<BandPrefill>(BandPrefill::Settings{
                      p.integer("n_init"), p.integer("n_local"), dense_rows,
                      p.integer("starting_layer"), p.choice("followup") == "sparse"})};
}

}  // namespace

/// StreamingLLM's mask, only in the prefill: each row sees the first n_init tokens and the last
/// n_local ones, itself included.
MethodInfo a_shape() {
  return {.name = "a-shape",
          .summary = "sparse prefill on attention sinks and a local window",
          .paper =
              "Xiao et al., Efficient Streaming Language Models with Attention Sinks, 2023; as a "
              "prefill mask: Jiang et al., MInference 1.0, 2024",
          .budget_unit = "keys per prefill row: n_init + n_local; every token is kept",
          .deviations =
              "later turns on a kept cache have the same mask; the reference harness computes them "
              "densely (followup=dense); the sizes in LoopServe's comparison are unknown: these, "
              "or n_local=896 for its budget of 1024",
          .parameters = band_parameters(),
          .make = [](const Parameters& p) { return make_band(p, 0); }};
}

/// A-shape whose last n_last rows are dense (SCBench).  n_init=8, n_local=512, n_last=128,
/// starting_layer=16 is TriangleMix.
MethodInfo tri_shape() {
  std::vector<ParameterInfo> parameters = band_parameters();
  parameters.push_back({"n_last", ParameterKind::kInteger, "100", "rows",
                        "number of last rows of a pass that are dense, at most all but one"});
  return {
      .name = "tri-shape",
      .summary = "sparse prefill on sinks and a local window, with the last rows dense",
      .paper =
          "Li et al., SCBench: A KV Cache-Centric Analysis of Long-Context Methods, 2024; He et "
          "al., TriangleMix, 2025 (n_init=8, n_local=512, n_last=128, starting_layer=16)",
      .budget_unit = "keys per prefill row: n_init + n_local; every token is kept",
      .deviations =
          "in later turns on a kept cache the turn's last rows are dense; the reference harness "
          "computes all rows densely (followup=dense)",
      .parameters = parameters,
      .make = [](const Parameters& p) { return make_band(p, p.integer("n_last")); }};
}

}  // namespace turnbench
