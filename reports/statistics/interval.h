#pragma once

#include "reports/statistics/contributions.h"

namespace turnbench {

/// How uncertain a mean is, of n_k dialogues in each of K populations with the weights w_k, which
/// are 1 in sum (1/K where every dataset weighs the same).  Turns of one dialogue are not
/// independent: dialogues are what is counted.
struct Spread {
  bool known = false;  ///< false if a population has fewer than two dialogues, or there is no mean
  int dialogues = 0;   ///< n = sum_k n_k
  /// v = sum_k v_k with v_k = n_k / (n_k - 1) sum_i l_i^2, of the residuals (see Contributions);
  /// stored units squared.
  double variance = 0;
  /// a = sum_k a_k with a_k = w_k^2 / n_k: the variance if all dialogues had the variance 1.
  double per_dialogue = 0;
  /// sum_k w_k (w_k / n_k)^2: what one dialogue more would add to the variance, if it had the
  /// variance 1 and stood in population k with the probability w_k.
  double pseudo_dialogue = 0;
  /// Degrees of freedom, by Satterthwaite (Biometrics Bulletin 2, 1946): u^2 / sum_k (u_k^2 /
  /// (n_k - 1)), where u_k = (v_k + v a_k / a) / 2 is drawn half way to what equal dialogues would
  /// have, because a v_k of few dialogues is often 0 by chance.  n - K for equal populations of
  /// equal variances.
  double freedom = 0;
};
Spread spread_of(const Contributions& contributions);

/// The ends of a 95% interval, in the unit of the mean.
struct Interval {
  double low = 0, high = 0;
};

/// Of a mean of shares, which lie in [0, 1]: Wilson's interval (JASA 22, 1927) with the effective
/// number of dialogues m (1 - m) / v for the number of draws, and Student's t for the normal
/// quantile.  If nothing varies, the effective number is 1 / a, the number of dialogues.
///
/// To v it adds 1/4 (pseudo_dialogue - 1/n^2): a small dataset whose dialogues are all right by
/// chance would seem certain beside a large one.  For datasets of equal sizes that is 0.
Interval share_interval(double mean, const Spread& spread);

/// Of a difference of such means: mean +- t se with se^2 = v + 1/2 pseudo_dialogue.  The second
/// part counts for dialogues where nothing differs by chance: one more, won or lost by half.
Interval difference_interval(double mean, const Spread& spread);
double difference_error(const Spread& spread);  ///< se

/// Of values with any range: mean +- t sqrt(v).
Interval value_interval(double mean, const Spread& spread);

}  // namespace turnbench
