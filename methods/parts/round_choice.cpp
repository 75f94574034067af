#include "methods/parts/round_choice.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace turnbench {
namespace {

constexpr double kDeviations = 3;    // kAdaptive: standard deviations above the mean
constexpr double kRounding = 1e-12;  // tolerance for shares that differ only by rounding

/// Indices of the k largest values, ascending.
std::vector<std::int32_t> greatest(std::span<const double> values, std::size_t k) {
  std::vector<std::int32_t> out(values.size());
  std::iota(out.begin(), out.end(), 0);
  const auto is_before = [&](std::int32_t a, std::int32_t b) {
    const double x = values[a], y = values[b];
    return x != y ? x > y : a < b;
  };
  std::partial_sort(out.begin(), out.begin() + static_cast<std::ptrdiff_t>(k), out.end(),
                    is_before);
  out.resize(k);
  std::sort(out.begin(), out.end());
  return out;
}

double limit_of(std::span<const double> shares, const RoundChoice& choice) {
  if (choice.rule == RoundChoice::Rule::kFixed) return choice.threshold;
  const double count = static_cast<double>(shares.size()), mean = 1 / count;
  if (choice.rule == RoundChoice::Rule::kMean) return mean;
  double squares = 0;
  for (const double p : shares) squares += (p - mean) * (p - mean);
  return mean + kDeviations * std::sqrt(squares / count);
}

}  // namespace

RoundChoice::Rule parse_round_rule(const std::string& name) {
  if (name == "fixed") return RoundChoice::Rule::kFixed;
  if (name == "adaptive") return RoundChoice::Rule::kAdaptive;
  return name == "mean" ? RoundChoice::Rule::kMean : RoundChoice::Rule::kTopK;
}

std::vector<std::int32_t> choose_rounds(std::span<const double> attention,
                                        const RoundChoice& choice) {
  if (attention.empty()) return {};
  if (choice.rule == RoundChoice::Rule::kTopK) {
    // 0.1 of 30 is 3, not 4.
    const double wanted = std::ceil(choice.share * static_cast<double>(attention.size()) - 1e-9);
    const auto most = static_cast<double>(attention.size());
    return greatest(attention, static_cast<std::size_t>(std::clamp(wanted, 1.0, most)));
  }
  std::vector<double> shares(attention.begin(), attention.end());
  const double sum = std::accumulate(shares.begin(), shares.end(), 0.0);
  for (double& p : shares) p = sum > 0 ? p / sum : 0;
  const double limit = limit_of(shares, choice) + kRounding;
  std::vector<std::int32_t> out;
  for (std::size_t i = 0; i < shares.size(); ++i) {
    if (shares[i] > limit) out.push_back(static_cast<std::int32_t>(i));
  }
  return out.empty() ? greatest(attention, 1) : out;
}

}  // namespace turnbench
