#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "reports/statistics/stratum.h"

namespace turnbench {

/// A mean over strata, each with the same weight, decomposed by dialogue for intervals and tests.
///
/// For J strata, with T_j turns and the sum S_j of their values, the mean is M = 1/J sum_j S_j /
/// T_j.  Dialogue i, with t_ij turns and the sum s_ij in stratum j, contributes d_i = sum_j s_ij /
/// (J T_j), so that M = sum_i d_i.  Its residual is l_i = sum_j (s_ij - t_ij S_j / T_j) / (J T_j);
/// the residuals sum to 0.  The same dialogue in several strata (at other positions, say) is one
/// dialogue.  All values are in stored units: shares, seconds, bytes.
struct Contributions {
  struct OfPopulation {
    std::shared_ptr<const Population> population;
    double weight = 0;                     ///< share of the strata with this population
    std::vector<std::uint32_t> dialogues;  ///< dialogues with turns, ascending: [n_k]
    std::vector<double> parts;             ///< d_i: [n_k]
    /// sum_j t_ij / (J T_j): the part of a dialogue whose turns all have the value 1.  [n_k], with
    /// the sum `weight`.
    std::vector<double> full_parts;
    std::vector<double> residuals;  ///< l_i: [n_k]
  };
  std::vector<OfPopulation> populations;  ///< sorted by name: [K]
  double mean = 0;                        ///< M
  bool known = false;    ///< there is a mean: at least one stratum, and every stratum has a turn
  bool in_range = true;  ///< the values are shares, or for differences, differences of shares
  int turns = 0;
  int dialogues() const;
  /// Subtracts a constant from every value.
  void subtract(double constant);
};

/// For the mean of values.
Contributions contributions(const std::vector<const Stratum*>& strata);
/// For the mean of differences between strata and their baselines, on the turns that both have.
Contributions contributions(const std::vector<StratumPair>& pairs);

}  // namespace turnbench
