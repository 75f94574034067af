#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "reports/statistics/stratum.h"

namespace turnbench {

/// A mean over strata, each with the same weight, decomposed by unit for intervals and tests.
///
/// For J strata, with T_j turns and the sum S_j of their values, the mean is M = 1/J sum_j S_j /
/// T_j.  Unit i, with t_ij turns and the sum s_ij in stratum j, contributes d_i = sum_j s_ij / (J
/// T_j), so that M = sum_i d_i.  Its residual is l_i = sum_j (s_ij - t_ij S_j / T_j) / (J T_j); the
/// residuals sum to 0.  The same unit in several strata (a dialogue at other positions, or
/// dialogues of several datasets with the same text) is one unit.  All values are in stored units:
/// shares, seconds, bytes.
struct Contributions {
  struct OfPopulation {
    std::shared_ptr<const Units> units;
    double weight = 0;                   ///< share of the strata with these units
    std::vector<std::uint32_t> present;  ///< units with turns, ascending
    std::vector<double> parts;           ///< d_i, by unit that is present
    /// f_i = sum_j t_ij / (J T_j): the part of a unit whose turns all have the value 1.  The sum is
    /// `weight`.
    std::vector<double> full_parts;
    std::vector<double> residuals;  ///< l_i
    /// n_k: the number of units present; if a unit has several dialogues, the number of units of
    /// equal weight that would be as informative, (sum f_i)^2 / sum f_i^2 (Kish, Survey Sampling,
    /// 1965).
    double size = 0;
  };
  std::vector<OfPopulation> populations;  ///< sorted by name: [K]
  double mean = 0;                        ///< M
  bool known = false;    ///< there is a mean: at least one stratum, and every stratum has a turn
  bool in_range = true;  ///< the values are shares, or for differences, differences of shares
  int turns = 0;
  int dialogues = 0;  ///< those of two datasets are two, also if they are one unit
  /// Subtracts a constant from every value.
  void subtract(double constant);
};

/// For the mean of values.
Contributions contributions(const std::vector<const Stratum*>& strata);
/// For the mean of differences between strata and their baselines, on the turns that both have.
Contributions contributions(const std::vector<StratumPair>& pairs);

}  // namespace turnbench
