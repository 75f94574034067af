#pragma once

#include <optional>
#include <span>
#include <vector>

#include "methods/parts/layer_sums.h"

namespace turnbench {

/// The positions of each round before turn `turn`: the messages of user and assistant, with the
/// markup of both.  Text before the first message (a system prompt) belongs to no round.
std::vector<PositionRange> earlier_rounds(std::span<const Span> spans, int turn);

/// The share of each round in the attention that some rows give to all of them, over all heads of a
/// layer: P^l of Round Attention (Tang et al. 2025).  Empty if this attention is 0 in float32.
std::vector<double> round_shares(LayerSums& layer, PositionRange rows,
                                 std::span<const PositionRange> rounds);

/// KL(p || q) in nats; shares below 1e-6 are raised to 1e-6, then each distribution is normalized.
double kl_divergence(std::span<const double> p, std::span<const double> q);

/// D(l), l = 1 ... layers - 1: the mean over later layers j of KL(P^l || P^j).  shares: [layers].
std::vector<double> layer_divergences(std::span<const std::vector<double>> shares);

/// Rule for the number of dense layers from the first one, after which rounds are selected once for
/// all deeper layers.
enum class WatershedRule {
  /// The first l in 2 ... layers - 2 with D(l) no larger than its neighbours and than half of the
  /// maximum before it; if there is none, as kDrop.
  kMinimum,
  kDrop  ///< the first l with D(l) no larger than half of the maximum before it
};
/// L_w from D(1), D(2), ...; nullopt if D never falls that far.
std::optional<int> watershed_layer(std::span<const double> divergences, WatershedRule rule);

}  // namespace turnbench
