#include "reports/statistics/interval.h"

#include <algorithm>
#include <cmath>

#include "reports/statistics/student_t.h"

namespace turnbench {
namespace {

constexpr double kUpperTail = .975;
constexpr double kNoVariance = 1e-15;  // rounding error of a variance of 0

Interval around(double mean, double half_width) {
  return {mean - half_width, mean + half_width};
}

double shrunk_variance(double variance, const Contributions::OfPopulation& p) {
  double sum = 0, above_0 = 0, below_1 = 0, at_end = 0;
  for (std::size_t i = 0; i < p.parts.size(); ++i) {
    const double part = p.parts[i], full = p.full_parts[i];
    sum += part;
    above_0 += part > 0;
    below_1 += part < full;
    at_end += part == 0 || part == full;
  }
  const auto n = static_cast<double>(p.parts.size());
  const double binary = std::max(0.0, sum * (p.weight - sum)) / (n - 1),
               seen = std::min(above_0, below_1), prior = 2 * at_end / n;
  return at_end == 0 ? variance : (seen * variance + prior * binary) / (seen + prior);
}

}  // namespace

Spread spread_of(const Contributions& contributions) {
  Spread out;
  out.known = contributions.known;
  out.dialogues = contributions.dialogues();
  struct Part {
    double variance, per_dialogue, freedom;
  };
  std::vector<Part> parts;
  for (const Contributions::OfPopulation& p : contributions.populations) {
    const auto n = static_cast<double>(p.dialogues.size());
    if (n < 2) {
      out.known = false;
      return out;
    }
    double squares = 0;
    for (double residual : p.residuals) squares += residual * residual;
    parts.push_back({n / (n - 1) * squares, p.weight * p.weight / n, n - 1});
    out.variance += parts.back().variance;
    out.share_variance += shrunk_variance(parts.back().variance, p);
    out.per_dialogue += parts.back().per_dialogue;
    const double pseudo = p.weight * (p.weight / n) * (p.weight / n);
    out.pseudo_dialogue += pseudo;
    if (parts.back().variance < kNoVariance) out.of_constant += pseudo;
  }
  // If nothing varies, assume equal variances of all dialogues.
  const double scale = std::max(out.variance, kNoVariance) / out.per_dialogue;
  double sum = 0, squares = 0;
  for (const Part& p : parts) {
    const double blend = (p.variance + scale * p.per_dialogue) / 2;
    sum += blend;
    squares += blend * blend / p.freedom;
  }
  out.freedom = squares > 0 ? sum * sum / squares : 0;
  return out;
}

Interval share_interval(double mean, const Spread& spread) {
  const double t = student_t_quantile(kUpperTail, spread.freedom),
               n = static_cast<double>(spread.dialogues), spreading = mean * (1 - mean),
               unseen = std::max(spread.pseudo_dialogue - 1 / (n * n), spread.of_constant) / 4;
  const double effective = spread.variance < kNoVariance
                               ? 1 / spread.per_dialogue
                               : spreading / (spread.share_variance + unseen);
  // Wilson's formula times the effective number, which may be 0 due to rounding of the mean.
  const double square = t * t, all = effective + square;
  const double middle = (mean * effective + square / 2) / all,
               half = t / all * std::sqrt(std::max(0.0, spreading * effective + square / 4));
  return {std::clamp(middle - half, 0.0, std::max(0.0, mean)),
          std::clamp(middle + half, std::min(1.0, mean), 1.0)};
}

double difference_error(const Spread& spread) {
  return std::sqrt(spread.variance + spread.pseudo_dialogue / 2);
}

Interval difference_interval(double mean, const Spread& spread) {
  const double half = student_t_quantile(kUpperTail, spread.freedom) * difference_error(spread);
  const Interval out = around(mean, half);
  return {std::max(out.low, -1.0), std::min(out.high, 1.0)};
}

Interval value_interval(double mean, const Spread& spread) {
  return around(mean, student_t_quantile(kUpperTail, spread.freedom) * std::sqrt(spread.variance));
}

}  // namespace turnbench
