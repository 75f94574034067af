#include "reports/statistics/family.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "common/thread_pool.h"
#include "reports/statistics/sign_flips.h"

namespace turnbench {
namespace {

constexpr std::size_t kAtOnce = 64;  // members whose flips are in memory at the same time
constexpr double kRounding = 1e-9;   // sums with a smaller difference count as equal

/// A member's |sum_i d_i| and its scale sqrt(sum_i d_i^2).
struct Observed {
  double size = 0, scale = 0;
  std::size_t differing = 0;  ///< units
  double statistic() const { return scale > 0 ? size / scale : 0; }
};

Observed observe(const Contributions& member) {
  Observed out;
  double sum = 0, squares = 0;
  for (const Contributions::OfPopulation& p : member.populations) {
    for (double part : p.parts) {
      sum += part;
      squares += part * part;
      out.differing += part != 0;
    }
  }
  out.size = std::abs(sum);
  out.scale = std::sqrt(squares);
  return out;
}

std::size_t reached(const std::vector<double>& statistics, double threshold) {
  return static_cast<std::size_t>(std::count_if(
      statistics.begin(), statistics.end(), [&](double x) { return x >= threshold - kRounding; }));
}

/// The indices of values in ascending order.
std::vector<std::size_t> ascending(const std::vector<double>& values) {
  std::vector<std::size_t> out(values.size());
  std::iota(out.begin(), out.end(), std::size_t{0});
  std::stable_sort(out.begin(), out.end(),
                   [&](std::size_t a, std::size_t b) { return values[a] < values[b]; });
  return out;
}

}  // namespace

std::vector<double> holm(const std::vector<double>& p) {
  std::vector<double> out(p.size());
  double largest = 0;
  std::size_t left = p.size();
  for (std::size_t i : ascending(p)) {
    largest = std::max(largest, static_cast<double>(left--) * p[i]);
    out[i] = std::min(1.0, largest);
  }
  return out;
}

std::vector<PValue> test_family(const std::vector<const Contributions*>& family,
                                Adjustment adjustment) {
  std::vector<PValue> out(family.size());
  if (family.empty()) return out;
  const SignFlips flips(family);
  std::vector<Observed> observed;
  std::vector<double> statistics;
  for (const Contributions* member : family) {
    observed.push_back(observe(*member));
    statistics.push_back(observed.back().statistic());
  }
  const auto statistics_of = [&](std::size_t i, const SignFlips& of) {
    std::vector<double> null = of.sums(*family[i]);
    for (double& x : null) x /= observed[i].scale;
    return null;
  };
  // From the smallest statistic on: the maximum of a step is over the members up to it.
  std::vector<std::size_t> order = ascending(statistics);
  std::erase_if(order, [&](std::size_t i) { return observed[i].scale == 0; });  // p = 1
  std::vector<double> maxima(flips.count(), 0.0);
  // For fewer members, starting threads takes longer.
  ThreadPool threads(order.size() < kAtOnce ? 1 : 0);
  for (std::size_t first = 0; first < order.size(); first += kAtOnce) {
    std::vector<std::vector<double>> nulls(std::min(kAtOnce, order.size() - first));
    threads.parallel_for(nulls.size(), [&](std::size_t n, int) {
      const std::size_t i = order[first + n];
      nulls[n] = statistics_of(i, flips);
      out[i].p = flips.p_value(reached(nulls[n], statistics[i]));
      if (flips.are_all() || observed[i].differing > SignFlips::kMaxEnumerated) return;
      const SignFlips own({family[i]});
      out[i].p = own.p_value(reached(statistics_of(i, own), statistics[i]));
    });
    for (std::size_t n = 0; n < nulls.size(); ++n) {
      const std::size_t i = order[first + n];
      for (std::size_t flip = 0; flip < maxima.size(); ++flip)
        maxima[flip] = std::max(maxima[flip], nulls[n][flip]);
      out[i].adjusted = flips.p_value(reached(maxima, statistics[i]));
    }
  }
  if (adjustment == Adjustment::kHolm) {
    std::vector<double> p;
    for (const PValue& value : out) p.push_back(value.p);
    const std::vector<double> adjusted = holm(p);
    for (std::size_t i = 0; i < out.size(); ++i) out[i].adjusted = adjusted[i];
    return out;
  }
  // A difference closer to 0 must not have a smaller adjusted p.
  double largest = 0;
  for (auto i = order.rbegin(); i != order.rend(); ++i) {
    largest = std::max({largest, out[*i].p, out[*i].adjusted});
    out[*i].adjusted = largest;
  }
  return out;
}

}  // namespace turnbench
