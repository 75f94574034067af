#include "reports/statistics/student_t.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace turnbench {
namespace {

constexpr double kTiny = 1e-300, kPrecision = 4e-16;
constexpr int kMaxTerms = 2000, kMaxSteps = 200;

/// The continued fraction of I_x(a, b), by Lentz's method; it converges fast for
/// x < (a + 1) / (a + b + 2).
double beta_fraction(double a, double b, double x) {
  const auto nonzero = [](double value) { return std::abs(value) < kTiny ? kTiny : value; };
  double c = 1, d = 1 / nonzero(1 - (a + b) * x / (a + 1)), out = d;
  const auto step = [&](double numerator) {
    d = 1 / nonzero(1 + numerator * d);
    c = nonzero(1 + numerator / c);
    out *= d * c;
    return std::abs(d * c - 1) > kPrecision;
  };
  for (int m = 1; m <= kMaxTerms; ++m) {
    const double even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
                 odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
    step(even);
    if (!step(odd)) break;
  }
  return out;
}

double density(double t, double df) {
  return std::exp(std::lgamma((df + 1) / 2) - std::lgamma(df / 2) -
                  (df + 1) / 2 * std::log1p(t * t / df)) /
         std::sqrt(df * std::acos(-1.0));
}

}  // namespace

double incomplete_beta(double a, double b, double x, double y) {
  if (x <= 0) return 0;
  if (y <= 0) return 1;
  const double front = std::exp(std::lgamma(a + b) - std::lgamma(a) - std::lgamma(b) +
                                a * std::log(x) + b * std::log(y));
  if (x < (a + 1) / (a + b + 2)) return front * beta_fraction(a, b, x) / a;
  return 1 - front * beta_fraction(b, a, y) / b;
}

double student_t_tail(double t, double df) {
  const double tail = incomplete_beta(df / 2, .5, df / (df + t * t), t * t / (df + t * t)) / 2;
  return t < 0 ? 1 - tail : tail;
}

double student_t_quantile(double p, double df) {
  if (p < .5) return -student_t_quantile(1 - p, df);
  const double tail = 1 - p;
  double low = 0, high = 2;
  while (student_t_tail(high, df) > tail && high < std::numeric_limits<double>::max() / 4) {
    low = high;
    high *= 2;
  }
  // Newton's method within the bracket, with a bisection step if it leaves the bracket.
  double t = (low + high) / 2;
  for (int i = 0; i < kMaxSteps; ++i) {
    const double excess = student_t_tail(t, df) - tail;
    (excess > 0 ? low : high) = t;
    double next = t + excess / density(t, df);
    if (!(next > low && next < high)) next = (low + high) / 2;
    const bool done = std::abs(next - t) <= 1e-14 * std::max(1.0, t);
    t = next;
    if (done) break;
  }
  return t;
}

}  // namespace turnbench
