#pragma once

namespace turnbench {

/// I_x(a, b), the regularized incomplete beta function, for a, b > 0 and x in [0, 1].  `y` is
/// 1 - x, which the caller may know more exactly.  By the continued fraction DLMF 8.17.22.
double incomplete_beta(double a, double b, double x, double y);

/// P(T > t) of Student's t with `df` > 0 degrees of freedom, which need not be whole.
double student_t_tail(double t, double df);

/// The t with P(T <= t) = p, for p in (0, 1): `student_t_quantile(.975, df)` for 95% intervals.
double student_t_quantile(double p, double df);

}  // namespace turnbench
