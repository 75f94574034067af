#include "methods/actions/watershed.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace turnbench {
namespace {

constexpr double kFloor = 1e-6;       // minimum of a share
constexpr double kSignificant = 0.5;  // relative to the largest earlier divergence

std::vector<double> floored(std::span<const double> shares) {
  std::vector<double> out;
  for (double share : shares) out.push_back(std::max(share, kFloor));
  const double sum = std::accumulate(out.begin(), out.end(), 0.0);
  for (double& share : out) share /= sum;
  return out;
}

}  // namespace

std::vector<PositionRange> earlier_rounds(std::span<const Span> spans, int turn) {
  std::vector<PositionRange> out;
  for (std::size_t i = 0; i < spans.size(); ++i) {
    const Span& span = spans[i];
    const bool before_all = i == 0 && span.kind == SpanKind::kMarkup;
    if (span.turn >= turn || before_all || span.begin == span.end) continue;
    const auto round = static_cast<std::size_t>(span.turn);
    if (out.size() <= round) out.resize(round + 1, {span.begin, span.begin});
    out[round].end = span.end;
  }
  return out;
}

std::vector<double> round_shares(LayerSums& layer, PositionRange rows,
                                 std::span<const PositionRange> rounds) {
  const std::vector<double> mass = layer.column_mass(rows, rows.end);
  std::vector<double> out;
  for (const PositionRange& round : rounds)
    out.push_back(std::accumulate(mass.begin() + round.begin, mass.begin() + round.end, 0.0));
  const double sum = std::accumulate(out.begin(), out.end(), 0.0);
  if (sum == 0) return {};
  for (double& share : out) share /= sum;
  return out;
}

double kl_divergence(std::span<const double> p, std::span<const double> q) {
  const std::vector<double> a = floored(p), b = floored(q);
  double out = 0;
  for (std::size_t i = 0; i < a.size(); ++i) out += a[i] * std::log(a[i] / b[i]);
  return out;
}

std::vector<double> layer_divergences(std::span<const std::vector<double>> shares) {
  std::vector<double> out;
  for (std::size_t l = 0; l + 1 < shares.size(); ++l) {
    double sum = 0;
    for (std::size_t j = l + 1; j < shares.size(); ++j) sum += kl_divergence(shares[l], shares[j]);
    out.push_back(sum / static_cast<double>(shares.size() - 1 - l));
  }
  return out;
}

std::optional<int> watershed_layer(std::span<const double> divergences, WatershedRule rule) {
  const std::span<const double> d = divergences;
  double largest = d.empty() ? 0 : d[0];
  for (std::size_t l = 1; l < d.size(); ++l) {
    const bool significant = d[l] <= kSignificant * largest,
               minimum = l + 1 < d.size() && d[l] <= d[l - 1] && d[l] <= d[l + 1];
    if (significant && (minimum || rule == WatershedRule::kDrop)) return static_cast<int>(l) + 1;
    largest = std::max(largest, d[l]);
  }
  return rule == WatershedRule::kMinimum ? watershed_layer(d, WatershedRule::kDrop) : std::nullopt;
}

}  // namespace turnbench
