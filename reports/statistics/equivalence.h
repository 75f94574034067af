#pragma once

#include "reports/statistics/interval.h"

namespace turnbench {

/// How probable so small a difference is where the true one is `margin` or more, by two one-sided
/// tests (Schuirmann, Journal of Pharmacokinetics and Biopharmaceutics 15, 1987): P(T > (margin -
/// |D|) / se), with the se and the degrees of freedom of the interval.  `margin` and `mean` in
/// stored units, shares of 1.  If all differences are 0 (`spread.variance` is 0 and `mean` is), at
/// least the largest probability of that: product over populations of (1 - p_k)^n_k, where
/// dialogues of population k differ with the probability p_k and sum_k w_k p_k = margin.
double equivalence_p(double mean, const Spread& spread, const Contributions& contributions,
                     double margin);

/// The largest probability that no dialogue differs: see above.
double no_difference_probability(const Contributions& contributions, double margin);

}  // namespace turnbench
