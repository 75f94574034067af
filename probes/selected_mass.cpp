#include <numeric>

#include "methods/parts/scores.h"
#include "probes/probe.h"
#include "probes/selection_mean.h"

namespace turnbench {
namespace {

/// Attention mass of the tokens that are read for a head, mean over the query heads.
double mass_on(const LayerView& view, const Selection& selection) {
  if (selection.all()) return 1;
  const HeadScores& attention = view.stats.window_mass(1);  // [query heads, n]
  const auto lists = std::ssize(selection.slots);
  double sum = 0;
  for (int h = 0; h < view.shape.heads; ++h) {
    const std::span<const float> of_head = attention.head(h, cache_of_head(view, h).size());
    for (std::int32_t j : selection.slots[h * lists / view.shape.heads])
      sum += static_cast<double>(of_head[j]);
  }
  return sum / view.shape.heads;
}

}  // namespace

/// Share of full attention's mass on the method's selection, on full attention's hidden states.
ProbeInfo selected_mass() {
  using Kind = ParameterInfo::Kind;
  return {.name = "selected-mass",
          .summary = "share of the attention on the tokens that a method selects",
          .paper = "SpeContext, 2025, Figure 5(a)",
          .metric = "selected_mass",
          .deviations =
              "the paper gives no formula; here: the mean over query heads, layers and the "
              "answer's tokens; only cached tokens count, not those that a method has evicted "
              "before; a layer that reads everything counts as 1, but a method without a selection "
              "has no value; hidden states are full attention's in every layer",
          .input = ProbeInfo::Input::kAnswer,
          .parameters =
              {{"method", Kind::kMethod, "", "method",
                "method that is measured; must be the last parameter: method=quest:budget=512"}},
          .make = [](const Parameters&) { return mean_over_selections(mass_on); }};
}

}  // namespace turnbench
