#include "methods/parts/selection_recall.h"
#include "probes/probe.h"
#include "probes/selection_mean.h"

namespace turnbench {

/// Recall of a method's selection, computed on full attention's hidden states: recall@k against
/// exact top-k, where k is the number of tokens that the method reads.
ProbeInfo recall() {
  using Kind = ParameterInfo::Kind;
  return {
      .name = "recall",
      .summary = "share of the tokens with the highest attention that a method selects",
      .paper = "recall against exact top-k, as in PQCache, 2024, and ClusterKV, 2024",
      .metric = "recall",
      .deviations =
          "k is the number of tokens that the method reads for a query head, including sinks, "
          "window and current token; tokens with an attention of 0 in float32 are never among the "
          "best, even if fewer than k remain; only cached tokens count, not those that a method "
          "has evicted before; a layer that reads everything counts as 1, but a method without a "
          "selection has no value; hidden states are full attention's in every layer",
      .input = ProbeInfo::Input::kAnswer,
      .parameters =
          {{"method", Kind::kMethod, "", "method",
            "method that is measured; must be the last parameter: method=pqcache:budget=0.1"}},
      .make = [](const Parameters&) { return mean_over_selections(selection_recall); }};
}

}  // namespace turnbench
