#include "methods/parts/scores.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>

#include "common/error.h"

namespace turnbench {
namespace {

/// Higher scores first, then lower indices.
struct Better {
  std::span<const float> scores;
  bool operator()(std::int32_t a, std::int32_t b) const {
    const float x = scores[a], y = scores[b];
    return x != y ? x > y : a < b;
  }
};

void check_numbers(std::span<const float> scores) {
  if (std::any_of(scores.begin(), scores.end(), [](float x) { return std::isnan(x); })) {
    throw runtime_error(
        "found a score that is NaN: the model's attention is not finite, or a scorer divides by "
        "zero");
  }
}

}  // namespace

GroupRule parse_group_rule(const std::string& name) {
  return name == "max" ? GroupRule::kMax : name == "sum" ? GroupRule::kSum : GroupRule::kMean;
}

std::vector<float> group_scores(const HeadScores& scores, int first_head, int heads, int slots,
                                GroupRule rule) {
  const std::span<const float> first = scores.head(first_head, slots);
  std::vector<float> out(first.begin(), first.end());
  for (int h = first_head + 1; h < first_head + heads; ++h) {
    const std::span<const float> row = scores.head(h, slots);
    for (std::size_t j = 0; j < out.size(); ++j) {
      out[j] = rule == GroupRule::kMax ? std::max(out[j], row[j]) : out[j] + row[j];
    }
  }
  if (rule == GroupRule::kMean) {
    for (float& x : out) x /= static_cast<float>(heads);
  }
  return out;
}

Pooling parse_pooling(const std::string& name) {
  return name == "max" ? Pooling::kMax : name == "avg" ? Pooling::kAvg : Pooling::kNone;
}

std::vector<float> pool1d(std::span<const float> scores, int kernel, Pooling pooling) {
  std::vector<float> out(scores.begin(), scores.end());
  if (pooling == Pooling::kNone || kernel == 1) return out;
  const int n = static_cast<int>(scores.size()), half = kernel / 2;
  for (int i = 0; i < n; ++i) {
    const auto begin = scores.begin() + std::max(0, i - half);
    const auto end = scores.begin() + std::min(n, i + half + 1);
    out[i] = pooling == Pooling::kMax
                 ? *std::max_element(begin, end)
                 : std::accumulate(begin, end, 0.0f) / static_cast<float>(kernel);
  }
  return out;
}

std::vector<float> block_sums(std::span<const float> scores, int block) {
  const int n = static_cast<int>(scores.size());
  std::vector<float> out;
  for (int begin = 0; begin < n; begin += block) {
    const int end = std::min(begin + block, n);
    out.push_back(std::accumulate(scores.begin() + begin, scores.begin() + end, 0.0f));
  }
  return out;
}

std::vector<std::int32_t> top_k(std::span<const float> scores, int k) {
  check_numbers(scores);
  std::vector<std::int32_t> order = all_slots(static_cast<int>(scores.size()));
  if (k < static_cast<int>(scores.size())) {
    k = std::max(k, 0);
    std::nth_element(order.begin(), order.begin() + k, order.end(), Better{scores});
    order.resize(static_cast<std::size_t>(k));
    std::sort(order.begin(), order.end());
  }
  return order;
}

std::vector<std::vector<std::int32_t>> top_k_of_rows(std::span<const std::vector<float>> rows,
                                                     std::int64_t k) {
  std::vector<float> all;
  for (const std::vector<float>& row : rows) all.insert(all.end(), row.begin(), row.end());
  const auto count = static_cast<int>(std::min<std::int64_t>(k, std::ssize(all)));
  std::vector<std::vector<std::int32_t>> out(rows.size());
  std::size_t row = 0;
  std::int32_t first = 0;  // of the row, in `all`
  for (const std::int32_t index : top_k(all, count)) {
    while (index - first >= std::ssize(rows[row]))
      first += static_cast<std::int32_t>(rows[row++].size());
    out[row].push_back(index - first);
  }
  return out;
}

std::vector<std::int32_t> top_k_with_first(std::vector<float> scores, int forced, int k) {
  const auto first = std::min(static_cast<std::size_t>(forced), scores.size());
  std::fill_n(scores.begin(), first, std::numeric_limits<float>::infinity());
  return top_k(scores, k);
}

std::vector<std::int32_t> ranking(std::span<const float> scores) {
  check_numbers(scores);
  std::vector<std::int32_t> order = all_slots(static_cast<int>(scores.size()));
  std::sort(order.begin(), order.end(), Better{scores});
  return order;
}

int cover_count(std::vector<float> scores, double share) {
  std::sort(scores.begin(), scores.end(), std::greater<>());
  double sum = 0;
  int count = 1;
  for (float x : scores) count += (sum += x) <= share ? 1 : 0;
  return count;
}

std::vector<std::int32_t> slots_in_window(const LayerView& view, const KvHeadCache& set) {
  const int hidden =
      view.sliding_window > 0 ? set.lower_bound(view.first_position - view.sliding_window + 1) : 0;
  if (hidden == 0) return {};
  std::vector<std::int32_t> out = all_slots(set.size());
  std::fill_n(out.begin(), hidden, -1);
  return out;
}

std::vector<std::int32_t> with_tail(std::vector<std::int32_t> chosen, int begin, int end) {
  for (int i = begin; i < end; ++i) chosen.push_back(i);
  return chosen;
}

KeepSets in_every_set(const LayerView& view, const std::vector<std::int32_t>& slots) {
  KeepSets out;
  out.slots.assign(view.sets.size(), slots);
  return out;
}

const KvHeadCache& cache_of_head(const LayerView& view, int head) {
  return view.sets[head / view.heads_per_set()];
}

std::vector<std::vector<float>> largest_probabilities(const LayerView& view,
                                                      const AttentionStats& stats,
                                                      std::span<const SlotsOfSet> slots) {
  const auto heads = static_cast<std::size_t>(view.heads_per_set());
  std::vector<std::vector<float>> of_heads(static_cast<std::size_t>(view.shape.heads)), out;
  stats.for_each_head([&](int head) {
    const SlotsOfSet own = slots[static_cast<std::size_t>(head) / heads];
    std::vector<float>& most = of_heads[head];
    most.assign(static_cast<std::size_t>(own.count), 0.0f);
    if (most.empty()) return;
    stats.for_each_row(head, 0, view.rows, [&](std::int32_t, std::span<const float> row) {
      for (std::size_t i = 0; i < most.size(); ++i) most[i] = std::max(most[i], row[own.first + i]);
    });
  });
  for (std::size_t set = 0; set < slots.size(); ++set) {
    std::vector<float>& most = out.emplace_back(of_heads[set * heads]);
    for (std::size_t head = set * heads + 1; head < (set + 1) * heads; ++head) {
      for (std::size_t i = 0; i < most.size(); ++i) most[i] = std::max(most[i], of_heads[head][i]);
    }
  }
  return out;
}

void raise_to(std::span<const float> least, std::vector<float>& scores, int first) {
  scores.resize(std::max(scores.size(), static_cast<std::size_t>(first) + least.size()), 0.0f);
  for (std::size_t i = 0; i < least.size(); ++i) {
    float& own = scores[static_cast<std::size_t>(first) + i];
    own = std::max(own, least[i]);
  }
}

std::vector<std::int32_t> draw_rows(Random& random, std::int64_t rows, std::int64_t count) {
  if (count > rows) throw input_error("found {} rows to draw, expected at most {}", count, rows);
  std::vector<std::int32_t> out(rows);
  std::iota(out.begin(), out.end(), 0);
  for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i)
    std::swap(out[i], out[i + random.below(out.size() - i)]);
  out.resize(count);
  return out;
}

}  // namespace turnbench
