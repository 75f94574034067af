#pragma once

#include <memory>
#include <utility>

#include "common/mean.h"
#include "probes/probe.h"

namespace turnbench {

/// The mean of measure(view, selection) over the layers and over the answer tokens that are read
/// with a selection.
template <typename Measure>
class SelectionMean : public PromptProbe {
 public:
  explicit SelectionMean(Measure measure) : measure_(std::move(measure)) {}

  void begin(const DialogueView&) override { mean_ = {}; }

  void observe_selection(const LayerView& view, const Selection& selection) override {
    mean_.add(measure_(view, selection));
  }

 protected:
  ProbeResult result() override {
    if (mean_.count == 0) return {0, "no token of the answer is read with a selection"};
    return {mean_.value(), ""};
  }

 private:
  Measure measure_;
  Mean mean_;
};

template <typename Measure>
std::unique_ptr<PromptProbe> mean_over_selections(Measure measure) {
  return std::make_unique<SelectionMean<Measure>>(std::move(measure));
}

}  // namespace turnbench
