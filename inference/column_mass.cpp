// Column sums of the attention matrix over all rows of a prefill: a second pass over the keys, 64
// rows at a time.

#include <algorithm>
#include <chrono>
#include <cmath>

#include "common/random.h"
#include "inference/attention_stats.h"

namespace turnbench {
namespace {

constexpr int kRowsPerBlock = 64;

/// Exponential(1) noise of the pair (row, key): e^g = 1 / noise for Gumbel noise g.  The key-th
/// number of the SplitMix64 stream that starts at `row_seed`.
double pair_noise(std::uint64_t row_seed, std::int32_t key) {
  Random random(row_seed + static_cast<std::uint64_t>(key) * 0x9E3779B97F4A7C15ull);
  const double uniform = (static_cast<double>(random.next() >> 12) + 0.5) * 0x1p-52;  // in (0, 1)
  return -std::log(uniform);
}

/// Room for `slots` slots per head; what is there stays.
void grow(HeadScores& scores, int heads, std::size_t slots) {
  if (scores.ld >= slots) return;
  HeadScores wider;
  wider.ld = slots;
  wider.data.assign(static_cast<std::size_t>(heads) * slots, 0.0f);
  for (int h = 0; h < heads && scores.ld > 0; ++h) {
    std::copy_n(scores.data.data() + static_cast<std::size_t>(h) * scores.ld, scores.ld,
                wider.data.data() + static_cast<std::size_t>(h) * slots);
  }
  scores = std::move(wider);
}

}  // namespace

void apply_rule(const ColumnRule& rule, std::uint64_t row_seed, const KvSet& keys,
                std::span<float> probabilities) {
  if (rule == ColumnRule{}) return;
  // softmax((z + g) / t) is proportional to (p e^g)^(1/t), with p = softmax(z).
  double sum = 0;
  for (std::size_t j = 0; j < probabilities.size(); ++j) {
    if (probabilities[j] == 0) continue;
    double weight = static_cast<double>(probabilities[j]);
    if (rule.gumbel) weight /= pair_noise(row_seed, keys.position(static_cast<int>(j)));
    if (rule.temperature != 1) weight = std::pow(weight, 1 / rule.temperature);
    probabilities[j] = static_cast<float>(weight);
    sum += weight;
  }
  for (float& p : probabilities) p = static_cast<float>(p / sum);
}

const ColumnMass& AttentionStats::column_mass(const ColumnRule& rule) {
  ColumnMasses& all = columns_ != nullptr ? *columns_ : own_columns_;
  ColumnMass& mass = all.by_rule[rule];
  if (!counted_.insert(rule).second) return mass;
  const auto start = std::chrono::steady_clock::now();
  int largest = 0;
  for (const KvSet& set : sets_) largest = std::max(largest, set.size());
  grow(mass.scores, shape_.heads, static_cast<std::size_t>(largest));
  for_each_head([&](int h) {
    const KvSet& set = set_of(h);
    float* sum = mass.scores.data.data() + static_cast<std::size_t>(h) * mass.scores.ld;
    std::vector<float> cells;
    for (int first = 0; first < pass_.rows; first += kRowsPerBlock) {
      std::vector<int> rows;
      for (int r = first; r < std::min(first + kRowsPerBlock, pass_.rows); ++r) rows.push_back(r);
      const std::size_t ld = probabilities(h, rows, cells);
      for (std::size_t i = 0; i < rows.size(); ++i) {
        const std::int32_t position = pass_.positions[rows[i]];
        const auto seen = static_cast<std::size_t>(set.lower_bound(position + 1));
        const std::span<float> row(cells.data() + i * ld, seen);
        apply_rule(rule,
                   Random::from({noise_seed_, static_cast<std::uint64_t>(h),
                                 static_cast<std::uint64_t>(position)})
                       .next(),
                   set, row);
        for (std::size_t j = 0; j < seen; ++j) sum[j] += row[j];
      }
    }
  });
  mass.rows += pass_.rows;
  for (int h = 0; h < shape_.heads; ++h) {
    multiply_adds_ += static_cast<double>(pass_.rows) * set_of(h).size() * shape_.head_dim;
  }
  all.seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return mass;
}

}  // namespace turnbench
