#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

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
    std::vector<std::vector<std::int32_t>> now = positions(view, selection);
    if (before.size() == now.size()) {
      for (std::size_t i = 0; i < before.size(); ++i) mean_.add(overlap(before[i], now[i]));
    }
    before = std::move(now);
  }

 protected:
  ProbeResult result() override {
    if (mean_.count == 0) return {0, "the answer has no two consecutive steps with a selection"};
    return {mean_.value(), ""};
  }

 private:
  /// The positions of the selected slots: an eviction between two steps changes the slots of
  /// tokens.
  static std::vector<std::vector<std::int32_t>> positions(const LayerView& view,
                                                          const Selection& selection) {
    std::vector<std::vector<std::int32_t>> out = selection.slots;
    for (std::size_t i = 0; i < out.size(); ++i) {
      const KvHeadCache& set = view.sets[i * view.sets.size() / out.size()];
      for (std::int32_t& slot : out[i]) slot = set.position(slot);
    }
    return out;
  }

  static double overlap(const std::vector<std::int32_t>& before,
                        const std::vector<std::int32_t>& now) {
    std::vector<std::int32_t> both;
    std::set_intersection(before.begin(), before.end(), now.begin(), now.end(),
                          std::back_inserter(both));
    return static_cast<double>(both.size()) / static_cast<double>(now.size());
  }

  // By layer: the positions in the previous step's lists, ascending.
  std::map<int, std::vector<std::vector<std::int32_t>>> before_;
  Mean mean_;
};

}  // namespace

/// Share of a step's selection that the previous step also selected, and that need not be loaded.
ProbeInfo step_overlap() {
  using Kind = ParameterInfo::Kind;
  return {
      .name = "step-overlap",
      .summary = "share of the selected tokens that the previous step selected too",
      .paper = "SpeContext, 2025, Figure 6(b)",
      .metric = "step_overlap",
      .deviations =
          "share of the later step's tokens; mean over lists, layers and the answer's tokens from "
          "the second on; the current "
          "token, which is always new, counts; layers that read everything do not; hidden "
          "states are full attention's in every layer",
      .input = ProbeInfo::Input::kAnswer,
      .parameters =
          {{"method", Kind::kMethod, "", "method",
            "method that is measured; must be the last parameter: method=quest:budget=512"}},
      .make = [](const Parameters&) { return std::make_unique<StepOverlap>(); }};
}

}  // namespace turnbench
