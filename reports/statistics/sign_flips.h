#pragma once

#include <cstdint>
#include <map>
#include <string_view>
#include <vector>

#include "reports/statistics/contributions.h"

namespace turnbench {

/// The flips that a family of differences shares: a matrix of signs, flips x units, restricted to
/// the units where anything differs.  If a method and its baseline are exchangeable, every
/// difference could equally have the opposite sign, independently for each unit.
///
/// With at most `kMaxEnumerated` units these are all flips, the first of which is the identity;
/// otherwise `kFlips` random ones.  A unit's signs are drawn from common/random.h, seeded with the
/// names of its Units and of itself, so that they depend neither on the other rows of a table nor
/// on their order.
class SignFlips {
 public:
  static constexpr std::size_t kFlips = 4999, kMaxEnumerated = 11;

  explicit SignFlips(const std::vector<const Contributions*>& family);

  bool are_all() const { return all_; }
  std::size_t count() const { return count_; }

  /// |sum_i e_i d_i| for every flip e, where d_i are the parts of a member of the family: [count].
  std::vector<double> sums(const Contributions& member) const;

  /// The p-value of a statistic that `reached` flips reach or exceed: among all flips, or among the
  /// drawn ones and the data themselves (Phipson and Smyth, 2010).
  double p_value(std::size_t reached) const;

 private:
  struct OfPopulation {
    std::vector<std::uint32_t> units;  ///< where anything differs, ascending
    /// [eight units][flip]: one bit per unit.
    std::vector<std::vector<std::uint8_t>> signs;
  };
  std::map<std::string_view, OfPopulation> populations_;
  std::size_t count_ = 0;
  bool all_ = false;
};

}  // namespace turnbench
