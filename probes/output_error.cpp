#include <algorithm>
#include <cmath>

#include "common/error.h"
#include "common/mean.h"
#include "inference/engine/engine.h"
#include "probes/probe.h"

namespace turnbench {
namespace {

/// |own - followed| / |followed| over all rows, in the Frobenius norm.
double relative_error(const AttentionOutputs& outputs) {
  double error = 0, size = 0;
  for (std::int64_t r = 0; r < outputs.own.rows; ++r) {
    for (std::int64_t c = 0; c < outputs.own.columns; ++c) {
      const double own = static_cast<double>(outputs.own(r, c)),
                   followed = static_cast<double>(outputs.followed(r, c));
      error += (own - followed) * (own - followed);
      size += followed * followed;
    }
  }
  return error == 0 ? 0 : std::sqrt(error / size);
}

class OutputError : public PromptProbe {
 public:
  OutputError(int layer, bool decode) : layer_(layer), decode_(decode) {}

  void begin(const DialogueView&) override { mean_ = {}; }

  void observe_outputs(const LayerOutputs& layer) override {
    if (layer_ >= layer.layers) {
      throw input_error("output-error: layer: found {}, expected at most {}", layer_,
                        layer.layers - 1);
    }
    if (layer.decode != decode_ || (layer_ >= 0 && layer_ != layer.outputs.layer)) return;
    mean_.add(relative_error(layer.outputs));
  }

 protected:
  ProbeResult result() override {
    if (mean_.count == 0) return {0, "the answer has no decode step"};
    return {mean_.value(), ""};
  }

 private:
  int layer_;
  bool decode_;
  Mean mean_;  ///< over the layers, and during decoding over the tokens
};

}  // namespace

/// The relative distance of a method's attention output from that of full attention.  Both use the
/// hidden states of full attention, from which the method's keys and values are computed, too.  The
/// output is that of all heads of a layer, before the output projection.
ProbeInfo output_error() {
  using Kind = ParameterInfo::Kind;
  return {
      .name = "output-error",
      .summary = "relative L2 error of a method's attention output against full attention",
      .paper = "attention output error of sparse-attention-hub, 2025",
      .metric = "output_error",
      .deviations =
          "hidden states are full attention's in every layer, so that errors of earlier layers do "
          "not accumulate; each turn's prompt is prefilled as a whole, or in segments if the "
          "method selects between them; the errors of segments are averaged; norms are over all "
          "heads of "
          "a layer",
      .input = ProbeInfo::Input::kAnswer,
      .parameters =
          {{"layer", Kind::kInteger, "-1", "layer", "this layer only; -1: mean over all", -1},
           {"phase", Kind::kChoice, "decode", "prefill|decode",
            "prefill: error over all rows of the prompt; decode: mean over the answer's tokens"},
           {"method", Kind::kMethod, "", "method",
            "method that is measured; must be the last parameter: method=snapkv:budget=64"}},
      .make = [](const Parameters& p) {
        return std::make_unique<OutputError>(p.integer("layer"), p.choice("phase") == "decode");
      }};
}

}  // namespace turnbench
