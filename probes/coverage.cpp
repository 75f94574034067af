#include "methods/parts/layer_sums.h"
#include "probes/heads.h"

namespace turnbench {
namespace {

class Coverage : public PromptProbe {
 public:
  Coverage(double eta, HeadSelection heads) : eta_(eta), heads_(std::move(heads)) {}

  void begin(const DialogueView&) override { values_.clear(); }

  void observe_prompt(LayerSums& layer) override {
    heads_.for_each(layer.view(), [&](std::size_t head) {
      const std::vector<double>& curve = layer.coverage()[head];
      const int count = line_count(eta_, curve.size() - 1);
      if (count > 0) values_.push_back(curve[count]);
    });
  }

 protected:
  ProbeResult result() override { return heads_.reduce(values_); }

 private:
  double eta_;
  HeadSelection heads_;
  std::vector<double> values_;  ///< of the heads
};

}  // namespace

/// The share of the attention mass on the floor(eta 2n) heaviest vertical and slash lines, each
/// cell counted once (LoopServe, section 3.1.1, figure 1).
ProbeInfo coverage() {
  return {.name = "coverage",
          .summary = "share of a head's attention on its heaviest vertical and slash lines",
          .paper = "LoopServe, 2025, figure 1",
          .metric = "coverage",
          .deviations =
              "vertical and slash lines are ranked together, as the paper's 2n suggests; their "
              "number is rounded down",
          .parameters = line_parameters(),
          .make = [](const Parameters& p) {
            return std::make_unique<Coverage>(p.number("eta"), parse_head_selection("coverage", p));
          }};
}

}  // namespace turnbench
