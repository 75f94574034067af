#include "probes/heads.h"
#include "probes/layer_sums.h"

namespace turnbench {
namespace {

/// Which of the lines of a head are among the `eta` heaviest.
struct Chosen {
  std::vector<char> vertical, slash;
  int count;

  Chosen(std::span<const std::int32_t> ranking, double eta)
      : vertical(ranking.size() / 2),
        slash(vertical.size()),
        count(line_count(eta, ranking.size())) {
    for (std::int32_t line : ranking.first(static_cast<std::size_t>(count))) {
      const auto number = static_cast<std::size_t>(line);
      (number < vertical.size() ? vertical[number] : slash[number - vertical.size()]) = 1;
    }
  }
};

class SegmentOverlap : public PromptProbe {
 public:
  SegmentOverlap(double eta, double split, bool shared, Heads heads)
      : eta_(eta), split_(split), shared_(shared), heads_(std::move(heads)) {}

  void begin(const DialogueView&) override { values_.clear(); }

  void see_prompt(LayerSums& layer) override {
    const Range all = layer.rows();
    const auto cut = static_cast<std::int32_t>(split_ * all.size());
    if (cut == 0 || cut == all.end) return;
    heads_.for_each(layer.view(), [&](std::size_t head) {
      const Chosen first(layer.rankings({0, cut})[head], eta_),
          second(layer.rankings({cut, all.end})[head], eta_);
      if (first.count > 0) values_.push_back(overlap(first, second));
    });
  }

 protected:
  Measured result() override { return heads_.reduce(values_); }

 private:
  double overlap(const Chosen& first, const Chosen& second) const {
    int both = 0, within = 0;
    const auto count = [&](const std::vector<char>& a, const std::vector<char>& b) {
      for (std::size_t i = 0; i < a.size(); ++i) {
        both += a[i] != 0 && b[i] != 0;
        within += b[i];
      }
    };
    count(first.vertical, second.vertical);
    count(first.slash, second.slash);
    const int of = shared_ ? within : second.count;
    return of == 0 ? 0 : static_cast<double>(both) / of;
  }

  double eta_, split_;
  bool shared_;
  Heads heads_;
  std::vector<double> values_;  ///< of the heads
};

}  // namespace

/// How many of the heaviest lines of a prompt's second part are so in its first part too
/// (LoopServe, section 3.1.3, figure 3): rows and columns of the first part alone against rows of
/// the second part and all columns.
ProbeInfo segment_overlap() {
  using Kind = ParameterInfo::Kind;
  std::vector<ParameterInfo> parameters = line_parameters();
  parameters.push_back(
      {"split", Kind::kNumber, "0.5", "share", "of the prompt that is its first part", 0, 1});
  parameters.push_back({"of", Kind::kChoice, "all", "all|shared",
                        "lines of the second part that count: all, or those that the first part "
                        "can have too"});
  return {.name = "segment-overlap",
          .summary = "chosen lines of a prompt's second part that its first part chose too",
          .paper = "LoopServe, 2025, figure 3",
          .metric = "overlap",
          .deviates = "the paper does not say where it cuts: at half",
          .parameters = std::move(parameters),
          .make = [](const Parameters& p) {
            return std::make_unique<SegmentOverlap>(p.number("eta"), p.number("split"),
                                                    p.choice("of") == "shared",
                                                    parse_heads("segment-overlap", p));
          }};
}

}  // namespace turnbench
