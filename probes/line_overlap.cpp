#include <algorithm>

#include "methods/parts/layer_sums.h"
#include "probes/heads.h"
#include "probes/line_set.h"

namespace turnbench {
namespace {

/// Lines in both sets over lines in either.
double overlap(const LineSet& a, const LineSet& b) {
  const int both = count_common_lines(a, b);
  return static_cast<double>(both) / (a.size + b.size - both);
}

class LineOverlap : public Probe {
 public:
  LineOverlap(double eta, bool self, HeadSelection heads)
      : eta_(eta), self_(self), heads_(std::move(heads)) {}

  void begin(const DialogueView&) override { prompts_.emplace_back(); }

  void observe_prompt(LayerSums& layer) override {
    heads_.for_each(layer.view(), [&](std::size_t head) {
      const std::vector<std::int32_t>& ranking = layer.ranked_lines(layer.rows())[head];
      const int count = line_count(eta_, ranking.size());
      if (count > 0) prompts_.back().emplace_back(ranking, count);
    });
  }

  void end() override {}

  std::vector<ProbeResult> results() override {
    std::vector<std::vector<double>> sums;  // by prompt and head
    std::vector<int> others(prompts_.size());
    for (const auto& heads : prompts_) sums.emplace_back(heads.size(), self_ ? 1.0 : 0.0);
    for (std::size_t i = 0; i < prompts_.size(); ++i) {
      others[i] += self_;
      for (std::size_t j = i + 1; j < prompts_.size(); ++j) {
        if (prompts_[i].empty() || prompts_[j].empty()) continue;
        for (std::size_t h = 0; h < prompts_[i].size(); ++h) {
          const double share = overlap(prompts_[i][h], prompts_[j][h]);
          sums[i][h] += share;
          sums[j][h] += share;
        }
        ++others[i];
        ++others[j];
      }
    }
    std::vector<ProbeResult> out;
    for (std::size_t i = 0; i < prompts_.size(); ++i) {
      for (double& sum : sums[i]) sum /= std::max(others[i], 1);
      ProbeResult& own = out.emplace_back(heads_.reduce(std::move(sums[i])));
      if (others[i] == 0 && !prompts_[i].empty()) own.missing = "no other prompt has lines";
    }
    return out;
  }

 private:
  double eta_;
  bool self_;
  HeadSelection heads_;
  std::vector<std::vector<LineSet>> prompts_;  ///< by prompt; heads in order
};

}  // namespace

/// The overlap of the lines that the same head chooses on different inputs (LoopServe, section
/// 3.1.2, figure 2): the Jaccard index of the chosen lines, slash by offset and vertical by column;
/// for each prompt, the mean over all prompts, then over heads.
ProbeInfo line_overlap() {
  using Kind = ParameterInfo::Kind;
  std::vector<ParameterInfo> parameters = line_parameters();
  parameters.push_back({"self", Kind::kFlag, "true", "",
                        "compare each prompt with itself too, as in the paper's formula"});
  return {.name = "line-overlap",
          .summary = "share of a head's selected lines that two dialogues have in common",
          .paper = "LoopServe, 2025, figure 2",
          .metric = "overlap",
          .deviations =
              "an interval treats the dialogues' means as independent, although they share "
              "their pairs; the number of lines is rounded down",
          .compares_dialogues = true,
          .parameters = std::move(parameters),
          .make = [](const Parameters& p) {
            return std::make_unique<LineOverlap>(p.number("eta"), p.flag("self"),
                                                 parse_head_selection("line-overlap", p));
          }};
}

}  // namespace turnbench
