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

/// v_k of the population, shrunk; see Spread::share_variance.
double shrunk_variance(double variance, const Contributions::OfPopulation& p) {
  const auto units = static_cast<double>(p.parts.size());
  double sum = 0, at_ends = 0;
  for (std::size_t i = 0; i < p.parts.size(); ++i) {
    sum += p.parts[i];
    at_ends += std::pow(2 * p.parts[i] / p.full_parts[i] - 1, 4) / units;
  }
  const double mean = std::clamp(sum / p.weight, 0.0, 1.0),
               seen = p.size * std::min(mean, 1 - mean), prior = 2 * at_ends,
               binary = p.weight * p.weight / p.size * mean * (1 - mean) * units / (units - 1);
  return seen + prior > 0 ? (seen * variance + prior * binary) / (seen + prior) : variance;
}

}  // namespace

Spread spread_of(const Contributions& contributions) {
  Spread out;
  out.known = contributions.known;
  out.dialogues = contributions.dialogues;
  struct Part {
    double variance, per_unit, freedom;
  };
  std::vector<Part> parts;
  double sizes = 0, cubes = 0;
  for (const Contributions::OfPopulation& p : contributions.populations) {
    const auto units = static_cast<double>(p.parts.size());
    if (units < 2) {
      out.known = false;
      return out;
    }
    const double n = p.size;
    out.size += n;
    double squares = 0;
    for (double residual : p.residuals) squares += residual * residual;
    parts.push_back({units / (units - 1) * squares, p.weight * p.weight / n, std::max(1.0, n - 1)});
    out.variance += parts.back().variance;
    out.share_variance += shrunk_variance(parts.back().variance, p);
    out.per_unit += parts.back().per_unit;
    const double pseudo = p.weight * (p.weight / n) * (p.weight / n);
    out.pseudo_unit += pseudo;
    out.largest = std::max(out.largest, p.weight / n);
    for (std::size_t i = 0; i < p.parts.size(); ++i) {
      const double size = std::abs(p.parts[i] / p.full_parts[i]);
      sizes += size;
      cubes += size * size * size;
    }
    if (parts.back().variance < kNoVariance) out.of_constant += pseudo;
  }
  out.pseudo_pair = out.largest * out.largest * 2 * (2 + cubes) / (2 + sizes);
  // If nothing varies, assume equal variances of all dialogues.
  const double scale = std::max(out.variance, kNoVariance) / out.per_unit;
  double sum = 0, squares = 0;
  for (const Part& p : parts) {
    const double blend = (p.variance + scale * p.per_unit) / 2;
    sum += blend;
    squares += blend * blend / p.freedom;
  }
  out.freedom = squares > 0 ? sum * sum / squares : 0;
  return out;
}

Interval share_interval(double mean, const Spread& spread) {
  const double t = student_t_quantile(kUpperTail, spread.freedom), n = spread.size,
               spreading = mean * (1 - mean),
               unseen = std::max(spread.pseudo_unit - 1 / (n * n), spread.of_constant) / 4;
  const double effective =
      spread.variance < kNoVariance
          ? 1 / spread.per_unit
          : std::min(spreading / spread.share_variance,
                     std::max(spreading / (spread.share_variance + unseen), 1 / spread.largest));
  // Wilson's formula times the effective number, which may be 0 due to rounding of the mean.
  const double square = t * t, all = effective + square;
  const double middle = (mean * effective + square / 2) / all,
               half = t / all * std::sqrt(std::max(0.0, spreading * effective + square / 4));
  return {std::clamp(middle - half, 0.0, std::max(0.0, mean)),
          std::clamp(middle + half, std::min(1.0, mean), 1.0)};
}

double difference_error(const Spread& spread) {
  constexpr double kNormalQuantile = 1.9599639845400545;
  const double ratio = kNormalQuantile / student_t_quantile(kUpperTail, spread.freedom);
  return std::sqrt(spread.variance + ratio * ratio * spread.pseudo_pair);
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
