#include "methods/parts/budget_sharing.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>

namespace turnbench {

std::vector<int> apportion(std::span<const double> targets, std::span<const int> caps, int total) {
  // Remainders that differ only by rounding must tie, so they are compared as integers in
  // billionths.
  constexpr std::int64_t kUnit = 1'000'000'000;
  std::vector<int> out, order(targets.size());
  std::vector<std::int64_t> remainder;
  for (std::size_t i = 0; i < targets.size(); ++i) {
    const std::int64_t scaled = std::llround(targets[i] * static_cast<double>(kUnit));
    out.push_back(std::min(caps[i], static_cast<int>(scaled / kUnit)));
    remainder.push_back(scaled % kUnit);
  }
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int a, int b) { return remainder[a] > remainder[b]; });
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
  if (layers == 1) return {std::min(base, candidates)};
  int last = base / beta, first = 2 * base - last;  // of the first and the last layer
  if (first >= candidates) {
    first = candidates;
    last = 2 * base - candidates;
  }
  if (!exact) {
    const int step = (first - last) / (layers - 1);
    std::vector<int> out;  // [layers]
    for (int l = 0; l < layers; ++l) out.push_back(std::clamp(first - l * step, 0, candidates));
    return out;
  }
  std::vector<double> targets;  // [layers]
  for (int l = 0; l < layers; ++l)
    targets.push_back(first - static_cast<double>(l) * (first - last) / (layers - 1));
  const std::vector<int> caps(targets.size(), candidates);
  return apportion(targets, caps, layers * base);
}

std::vector<int> weighted_budgets(std::span<const double> weights, int base, int candidates) {
  const double total = static_cast<double>(base) * static_cast<double>(weights.size());
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  std::vector<double> targets;  // [layers]
  for (double w : weights) targets.push_back(total * w / sum);
  const std::vector<int> caps(targets.size(), candidates);
  return apportion(targets, caps, base * static_cast<int>(weights.size()));
}

std::vector<int> safeguarded_budgets(std::span<const int> wanted, std::span<const int> caps,
                                     int base, double alpha, bool exact) {
  if (exact) {
    std::vector<double> targets;  // [heads]
    for (int w : wanted) targets.push_back(alpha * base + (1 - alpha) * w);
    return apportion(targets, caps, std::accumulate(wanted.begin(), wanted.end(), 0));
  }
  std::vector<int> out;  // [heads]
  for (std::size_t h = 0; h < wanted.size(); ++h) {
    const double rounded = std::nearbyint((1 - alpha) * wanted[h] + std::floor(alpha * base));
    out.push_back(std::min(caps[h], static_cast<int>(rounded)));
  }
  return out;
}

}  // namespace turnbench
