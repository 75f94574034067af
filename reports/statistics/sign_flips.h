#pragma once

#include <cstdint>
#include <map>
#include <string_view>
#include <vector>

#include "reports/statistics/contributions.h"

namespace turnbench {

/// The flips that a family of differences shares: a matrix of signs, flips x dialogues, of which
/// the dialogues where anything differs are kept.  If a method and its baseline were exchangeable,
/// every difference could as well have the other sign, in all dialogues independently.
///
/// With at most `kMaxEnumerated` dialogues these are all flips, of which the first changes nothing;
/// else `kFlips` random ones.  A dialogue's signs are drawn from common/random.h seeded by the
/// names of its dataset and of itself: they depend neither on the other rows of a table nor on
/// their order.
class SignFlips {
 public:
  static constexpr std::size_t kFlips = 4999, kMaxEnumerated = 11;

  explicit SignFlips(const std::vector<const Contributions*>& family);

  bool are_all() const { return all_; }
  std::size_t count() const { return count_; }

  /// |sum_i e_i d_i| of every flip e, with the parts d_i of a member of the family: [count].
  std::vector<double> sums(const Contributions& member) const;

  /// The p of a statistic that `reached` flips reach: of all flips, or of drawn ones and the data
  /// themselves (Phipson and Smyth, 2010).
  double p_value(std::size_t reached) const;

 private:
  struct OfPopulation {
    std::vector<std::uint32_t> dialogues;          ///< where anything differs, ascending
    std::vector<std::vector<std::uint8_t>> signs;  ///< [eight dialogues][flip]: a bit for each
  };
  std::map<std::string_view, OfPopulation> populations_;
  std::size_t count_ = 0;
  bool all_ = false;
};

}  // namespace turnbench
