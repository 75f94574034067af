#include "methods/budgets.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>

namespace turnbench {

std::vector<int> apportion(std::span<const double> targets, std::span<const int> caps, int total) {
  // Remainders that are equal but for rounding must tie: billionths, exactly.
  constexpr std::int64_t kUnit = 1'000'000'000;
  std::vector<int> out, order(targets.size());
  std::vector<std::int64_t> remainder;
  for (std::size_t i = 0; i < targets.size(); ++i) {
    const std::int64_t scaled = std::llround(targets[i] * static_cast<double>(kUnit));
    out.push_back(std::min(caps[i], static_cast<int>(scaled / kUnit)));
    remainder.push_back(scaled % kUnit);
  }
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
    return remainder[static_cast<std::size_t>(a)] > remainder[static_cast<std::size_t>(b)];
  });
  int left = total - std::accumulate(out.begin(), out.end(), 0);
  for (bool any = true; any && left > 0;) {
    any = false;
    for (int i : order) {
      const auto at = static_cast<std::size_t>(i);
      if (left == 0 || out[at] >= caps[at]) continue;
      ++out[at];
      --left;
      any = true;
    }
  }
  return out;
}

std::vector<int> pyramid_budgets(int layers, int base, int beta, int candidates, bool exact) {
  int low = base / beta, high = 2 * base - low;
  if (high >= candidates) {
    high = candidates;
    low = 2 * base - candidates;
  }
  const auto count = static_cast<std::size_t>(layers);
  if (layers == 1) return {std::min(base, candidates)};
  if (exact) {
    std::vector<double> targets;
    for (int l = 0; l < layers; ++l) {
      targets.push_back(high - static_cast<double>(l) * (high - low) / (layers - 1));
    }
    return apportion(targets, std::vector<int>(count, candidates), layers * base);
  }
  std::vector<int> out;
  const int step = (high - low) / (layers - 1);
  for (int l = 0; l < layers; ++l) out.push_back(std::clamp(high - l * step, 0, candidates));
  return out;
}

std::vector<int> weighted_budgets(std::span<const double> weights, int base, int candidates) {
  const double total = static_cast<double>(base) * static_cast<double>(weights.size());
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  std::vector<double> targets;
  for (double w : weights) targets.push_back(total * w / sum);
  return apportion(targets, std::vector<int>(weights.size(), candidates),
                   base * static_cast<int>(weights.size()));
}

std::vector<int> safeguarded_budgets(std::span<const int> wanted, std::span<const int> caps,
                                     int base, double alpha, bool exact) {
  std::vector<double> targets;
  for (int w : wanted) targets.push_back(alpha * base + (1 - alpha) * w);
  if (exact) return apportion(targets, caps, std::accumulate(wanted.begin(), wanted.end(), 0));
  std::vector<int> out;
  for (std::size_t h = 0; h < wanted.size(); ++h) {
    const double rounded = std::nearbyint((1 - alpha) * wanted[h] + std::floor(alpha * base));
    out.push_back(std::min(caps[h], static_cast<int>(rounded)));
  }
  return out;
}

}  // namespace turnbench
