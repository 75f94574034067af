#include <algorithm>
#include <iterator>
#include <map>

#include "common/mean.h"
#include "probes/probe.h"

namespace turnbench {
namespace {

class StepOverlap : public PromptProbe {
 public:
  void begin(const DialogueView&) override {
    before_.clear();
    mean_ = {};
  }

  void observe_selection(const LayerView& view, const Selection& selection) override {
    std::vector<std::vector<std::int32_t>>& before = before_[view.layer];
    if (before.size() == selection.slots.size()) {
      for (std::size_t i = 0; i < before.size(); ++i)
        mean_.add(overlap(before[i], selection.slots[i]));
    }
    before = selection.slots;
  }

 protected:
  ProbeResult result() override {
    if (mean_.count == 0) return {0, "the answer has no two consecutive steps with a selection"};
    return {mean_.value(), ""};
  }

 private:
  static double overlap(const std::vector<std::int32_t>& before,
                        const std::vector<std::int32_t>& now) {
    std::vector<std::int32_t> both;
    std::set_intersection(before.begin(), before.end(), now.begin(), now.end(),
                          std::back_inserter(both));
    return static_cast<double>(both.size()) / static_cast<double>(now.size());
  }

  // By layer: the previous step's lists.
  std::map<int, std::vector<std::vector<std::int32_t>>> before_;
  Mean mean_;
};

}  // namespace

/// Share of a step's selection that the previous step also selected, and that need not be loaded.
ProbeInfo step_overlap() {
  using Kind = ParameterInfo::Kind;
  return {.name = "step-overlap",
          .summary = "share of the selected tokens that the previous step selected too",
          .paper = "SpeContext, 2025, Figure 6(b)",
          .metric = "step_overlap",
          .deviations =
              "mean over lists, layers and the answer's tokens from the second on; the current "
              "token, which is always new, counts; layers that read everything do not; hidden "
              "states are full attention's in every layer",
          .input = ProbeInfo::Input::kAnswer,
          .parameters =
              {{"method", Kind::kMethod, "", "method",
                "method that is measured; must be the last parameter: method=quest:budget=512"}},
          .make = [](const Parameters&) { return std::make_unique<StepOverlap>(); }};
}

}  // namespace turnbench
