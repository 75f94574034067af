#include "methods/parts/layer_sums.h"

#include <algorithm>
#include <numeric>

#include "methods/parts/scores.h"

namespace turnbench {

const std::vector<std::vector<std::int32_t>>& LayerSums::ranked_lines(PositionRange rows) {
  const auto [found, is_new] = rankings_.try_emplace(rows);
  std::vector<std::vector<std::int32_t>>& orders = found->second;
  if (!is_new) return orders;
  orders.resize(static_cast<std::size_t>(view_.shape.heads));
  view_.stats.for_each_head([&](int h) {
    LineMass mass = view_.stats.line_mass(h, rows.begin - view_.first_position, rows.size());
    std::vector<float> weights = std::move(mass.vertical);
    weights.insert(weights.end(), mass.slash.begin(), mass.slash.end());
    orders[h] = ranking(weights);
  });
  return orders;
}

const std::vector<std::vector<double>>& LayerSums::coverage() {
  if (!coverage_.empty()) return coverage_;
  const std::vector<std::vector<std::int32_t>>& orders = ranked_lines(rows());
  coverage_.resize(orders.size());
  view_.stats.for_each_head([&](int h) {
    const auto at = static_cast<std::size_t>(h);
    coverage_[at] = cover(h, orders[at]);
  });
  return coverage_;
}

/// A cell is covered as soon as the heavier of its two lines is chosen, so that one pass over the
/// cells gives the coverage for every number of lines.
std::vector<double> LayerSums::cover(int head, std::span<const std::int32_t> order) const {
  std::vector<std::int32_t> rank(order.size());
  for (std::size_t i = 0; i < order.size(); ++i) rank[order[i]] = static_cast<std::int32_t>(i);
  const std::int32_t *vertical = rank.data(), *slash = vertical + rows().end;
  std::vector<double> curve(order.size() + 1, 0.0);
  const auto add = [&](std::int32_t position, std::span<const float> cells) {
    for (std::size_t j = 0; j < cells.size(); ++j) {
      const std::int32_t first =
          std::min(vertical[j], slash[static_cast<std::size_t>(position) - j]);
      curve[static_cast<std::size_t>(first) + 1] += static_cast<double>(cells[j]);
    }
  };
  view_.stats.for_each_row(head, 0, view_.rows, add);
  std::partial_sum(curve.begin(), curve.end(), curve.begin());
  const double total = curve.back();
  for (double& share : curve) share /= total;
  return curve;
}

std::vector<double> LayerSums::column_mass(PositionRange rows, int end) {
  const auto [found, is_new] = columns_.try_emplace(rows);
  std::vector<double>& sum = found->second;
  if (is_new) {
    std::vector<std::vector<double>> heads(static_cast<std::size_t>(view_.shape.heads));
    view_.stats.for_each_head([&](int h) {
      std::vector<double>& own = heads[h];
      own.assign(static_cast<std::size_t>(rows.end), 0.0);
      const auto add = [&](std::int32_t, std::span<const float> cells) {
        for (std::size_t j = 0; j < cells.size(); ++j) own[j] += static_cast<double>(cells[j]);
      };
      view_.stats.for_each_row(h, rows.begin - view_.first_position, rows.size(), add);
    });
    sum.assign(static_cast<std::size_t>(rows.end), 0.0);
    for (const std::vector<double>& own : heads)  // in a fixed order, independent of the threads
      std::transform(own.begin(), own.end(), sum.begin(), sum.begin(), std::plus<>());
  }
  std::vector<double> out = sum;
  out.resize(static_cast<std::size_t>(end), 0.0);
  return out;
}

}  // namespace turnbench
