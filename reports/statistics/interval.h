#pragma once

#include "reports/statistics/contributions.h"

namespace turnbench {

/// Uncertainty of a mean over n_k units in each of K populations with weights w_k, which sum to 1
/// (1/K if every dataset has the same weight).  Turns of one dialogue are not independent, nor are
/// dialogues with the same text: the sampling unit is the dialogue, or the text.
struct Spread {
  bool known = false;  ///< false if a population has fewer than two units, or there is no mean
  int dialogues = 0;
  double size = 0;  ///< n = sum_k n_k, where n_k is the population's `size`
  /// v = sum_k v_k with v_k = G_k / (G_k - 1) sum_i l_i^2, where l_i are the residuals of the G_k
  /// units (see Contributions); in stored units squared.
  double variance = 0;
  /// For shares: sum_k of v_k shrunk towards the variance b_k = G_k / (G_k - 1) w_k^2 r_k (1 -
  /// r_k) / n_k of scores that are 0 or 1 with the same mean r_k: (h_k v_k + 2 z_k b_k) / (h_k + 2
  /// z_k).  h_k = n_k min(r_k, 1 - r_k) counts what the units score apart from the nearer end of
  /// the scale; if that is little, it says little about v_k.  z_k is the mean of (2 s - 1)^4 over
  /// the units' scores s: 1 if all are 0 or 1, about 0 if they are in the middle.
  double share_variance = 0;
  /// a = sum_k a_k with a_k = w_k^2 / n_k: the variance of the mean if each unit had variance 1.
  double per_unit = 0;
  /// sum_k w_k (w_k / n_k)^2: the variance that one additional unit would contribute if it had
  /// variance 1 and belonged to population k with probability w_k.
  double pseudo_unit = 0;
  /// The part of `pseudo_unit` that comes from populations with v_k = 0.
  double of_constant = 0;
  double largest = 0;  ///< max_k w_k / n_k, the largest weight of a unit
  /// For differences: `largest`^2 times 2 s^2, the variance that one unit won and one lost
  /// would contribute (Bonett and Price, Journal of Educational and Behavioral Statistics 37,
  /// 2012), in the population where a unit counts most.  s^2 = (2 + sum |d|^3) / (2 + sum |d|) is
  /// the mean square of the units' differences d and of these two, weighted by their size.
  double pseudo_pair = 0;
  /// Degrees of freedom, by Satterthwaite (Biometrics Bulletin 2, 1946): u^2 / sum_k (u_k^2 /
  /// max(1, n_k - 1)), where u_k = (v_k + v a_k / a) / 2 is shrunk half way towards the value for
  /// equal units, because v_k is often 0 by chance for few units.  n - K for equal populations with
  /// equal variances.
  double freedom = 0;
};
Spread spread_of(const Contributions& contributions);

/// The ends of a 95% interval, in the unit of the mean.
struct Interval {
  double low = 0, high = 0;
};

/// For a mean of shares, which lie in [0, 1]: Wilson's interval (JASA 22, 1927) with the effective
/// number of units m (1 - m) / share_variance as the number of draws, and Student's t as the
/// quantile.  If nothing varies, the effective number is 1 / a, the number of units.
///
/// The variance is increased by 1/4 max(pseudo_unit - 1/n^2, of_constant): otherwise a dataset
/// whose dialogues are all right by chance would appear certain next to a larger one or one whose
/// scores vary.  The term is 0 for datasets of equal sizes that all vary.  It reduces the effective
/// number to 1 / largest at most: that of a mean near an end of the scale whose variance comes from
/// one dataset.
Interval share_interval(double mean, const Spread& spread);

/// For a difference of such means: mean +- t se with se^2 = v + (z / t)^2 pseudo_pair, where z is
/// the normal quantile.  The second term accounts for dialogues where nothing differs by chance.
Interval difference_interval(double mean, const Spread& spread);
double difference_error(const Spread& spread);  ///< se

/// For values with any range: mean +- t sqrt(v).
Interval value_interval(double mean, const Spread& spread);

}  // namespace turnbench
