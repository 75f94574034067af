#pragma once

#include "reports/statistics/interval.h"

namespace turnbench {

/// p-value of the equivalence test: the probability of a difference this small if the true one is
/// `margin` or more, by two one-sided tests (Schuirmann, Journal of Pharmacokinetics and
/// Biopharmaceutics 15, 1987): P(T > (margin - |D|) / se), with the se and the degrees of freedom
/// of the interval.  `margin` and `mean` are in stored units, shares of 1.  If all differences are
/// 0 (`spread.variance` and `mean` are 0), the p-value is at least the largest probability of this
/// outcome: product over populations of (1 - p_k)^n_k, where dialogues of population k differ with
/// probability p_k and sum_k w_k p_k = margin.
double equivalence_p(double mean, const Spread& spread, const Contributions& contributions,
                     double margin);

/// The same test of a mean over dialogues and a constant, `difference` apart.  If nothing varies,
/// the p-value is at least the largest probability of this outcome at a distance of margin - |D|.
double equivalence_to_constant_p(double difference, const Spread& spread,
                                 const Contributions& contributions, double margin);

/// The largest probability that no dialogue differs, as defined above.
double no_difference_probability(const Contributions& contributions, double margin);

}  // namespace turnbench
