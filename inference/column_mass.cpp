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

/// One more product of queries and keys, whose rows are normalised by the log-sum-exp that
/// attention has left behind.
void AttentionStats::add_plain_masses(HeadScores& scores) {
  const auto heads = static_cast<std::size_t>(shape_.heads), group = heads / sets_.size(),
             head_dim = static_cast<std::size_t>(shape_.head_dim),
             rows = static_cast<std::size_t>(pass_.rows);
  std::vector<float> lse, unused;
  if (lse_ == nullptr) {
    lse.resize(rows * heads);
    unused.resize(rows * heads * head_dim);
  }
  std::vector<AttentionJob> dense;
  std::vector<ColumnJob> jobs;
  for (std::size_t s = 0; s < sets_.size(); ++s) {
    ColumnJob job;
    job.keys = &sets_[s];
    job.q = pass_.q + s * group * head_dim;
    job.q_stride = pass_.stride;
    job.heads = static_cast<int>(group);
    job.positions = pass_.positions;
    job.rows = pass_.rows;
    job.lse = (lse_ == nullptr ? lse.data() : lse_) + s * group;
    job.lse_stride = heads;
    job.sliding_window = sliding_window_;
    job.sums = scores.data.data() + s * group * scores.ld;
    job.sums_stride = scores.ld;
    jobs.push_back(job);
    if (lse_ != nullptr) continue;
    AttentionJob attention;
    attention.keys = job.keys;
    attention.q = job.q;
    attention.q_stride = job.q_stride;
    attention.heads = job.heads;
    attention.positions = job.positions;
    attention.rows = job.rows;
    attention.out = unused.data() + s * group * head_dim;
    attention.out_stride = heads * head_dim;
    attention.lse = lse.data() + s * group;
    attention.lse_stride = heads;
    attention.sliding_window = sliding_window_;
    attention.pass = {pass_.positions[0], pass_.rows};
    dense.push_back(attention);
  }
  if (!dense.empty()) backend_.attend(scale_, dense);
  backend_.add_column_sums(scale_, jobs);
}

/// Noise and temperature need each row whole before it can be normalised.
void AttentionStats::add_noisy_masses(const ColumnRule& rule, HeadScores& scores) const {
  for_each_head([&](int h) {
    const KvSet& set = set_of(h);
    float* sum = scores.data.data() + static_cast<std::size_t>(h) * scores.ld;
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
}

const ColumnMass& AttentionStats::column_mass(const ColumnRule& rule) {
  ColumnMasses& all = columns_ != nullptr ? *columns_ : own_columns_;
  ColumnMass& mass = all.by_rule[rule];
  if (!counted_.insert(rule).second) return mass;
  const auto start = std::chrono::steady_clock::now();
  int largest = 0;
  for (const KvSet& set : sets_) largest = std::max(largest, set.size());
  grow(mass.scores, shape_.heads, static_cast<std::size_t>(largest));
  if (rule == ColumnRule{}) {
    add_plain_masses(mass.scores);
  } else {
    add_noisy_masses(rule, mass.scores);
  }
  mass.rows += pass_.rows;
  for (int h = 0; h < shape_.heads; ++h) {
    multiply_adds_ += static_cast<double>(pass_.rows) * set_of(h).size() * shape_.head_dim;
  }
  all.seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return mass;
}

}  // namespace turnbench
