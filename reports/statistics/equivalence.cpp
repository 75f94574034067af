#include "reports/statistics/equivalence.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "reports/statistics/student_t.h"

namespace turnbench {
namespace {

/// Whether these values of all dialogues are at most `rounding` away from 0.
bool all_zero(const Contributions& contributions,
              std::vector<double> Contributions::OfPopulation::*values, double rounding) {
  return std::all_of(contributions.populations.begin(), contributions.populations.end(),
                     [&](const Contributions::OfPopulation& p) {
                       return std::all_of((p.*values).begin(), (p.*values).end(),
                                          [&](double x) { return std::abs(x) <= rounding; });
                     });
}

}  // namespace

double no_difference_probability(const Contributions& contributions, double margin) {
  // Lagrange's condition gives 1 - p_k = lambda n_k / w_k, or p_k = 0 where that exceeds 1, because
  // populations are independent.
  struct Open {
    double n, weight;
  };
  std::vector<Open> open;
  for (const Contributions::OfPopulation& p : contributions.populations)
    open.push_back({p.size, p.weight});
  std::sort(open.begin(), open.end(),
            [](const Open& a, const Open& b) { return a.n / a.weight < b.n / b.weight; });
  for (; !open.empty(); open.pop_back()) {
    double n = 0, weight = 0;
    for (const Open& p : open) {
      n += p.n;
      weight += p.weight;
    }
    const double lambda = (weight - margin) / n;
    if (lambda * open.back().n / open.back().weight > 1) continue;
    if (lambda <= 0) return 0;
    double logarithm = 0;
    for (const Open& p : open) logarithm += p.n * std::log(lambda * p.n / p.weight);
    return std::exp(logarithm);
  }
  return 1;
}

double equivalence_p(double mean, const Spread& spread, const Contributions& contributions,
                     double margin) {
  const double p =
      student_t_tail((margin - std::abs(mean)) / difference_error(spread), spread.freedom);
  return all_zero(contributions, &Contributions::OfPopulation::parts, 0)
             ? std::max(p, no_difference_probability(contributions, margin))
             : p;
}

double equivalence_to_constant_p(double difference, const Spread& spread,
                                 const Contributions& contributions, double margin) {
  const double rest = margin - std::abs(difference),
               p = student_t_tail(rest / difference_error(spread), spread.freedom);
  constexpr double kRounding = 1e-12;
  if (!all_zero(contributions, &Contributions::OfPopulation::residuals, kRounding)) return p;
  return rest > 0 ? std::max(p, no_difference_probability(contributions, rest)) : 1;
}

}  // namespace turnbench
