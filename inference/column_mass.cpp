// Column sums of the attention matrix over all rows of a prefill: one more product of queries and
// keys, tile by tile, whose rows are normalised by the log-sum-exp that attention has left behind.

#include <algorithm>

#include "common/clock.h"
#include "common/random.h"
#include "inference/attention_stats.h"

namespace turnbench {
namespace {

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

void AttentionStats::add_masses(const ColumnRule& rule, HeadScores& scores) {
  const auto heads = static_cast<std::size_t>(shape_.heads), group = heads / sets_.size(),
             head_dim = static_cast<std::size_t>(shape_.head_dim),
             rows = static_cast<std::size_t>(pass_.rows);
  Buffer lse, unused;
  std::vector<std::uint64_t> seeds;
  seeds.reserve(rule.gumbel ? rows * heads : 0);
  for (std::size_t r = 0; rule.gumbel && r < rows; ++r) {
    for (std::size_t h = 0; h < heads; ++h) {
      seeds.push_back(
          Random::from({noise_seed_, h, static_cast<std::uint64_t>(pass_.positions[r])}).next());
    }
  }
  std::vector<RowNoise> noises(sets_.size());
  if (lse_ == nullptr) {
    lse = Buffer(rows * heads * sizeof(float), backend_.memory());
    unused = Buffer(rows * heads * head_dim * sizeof(float), backend_.memory());
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
    job.lse = (lse_ == nullptr ? lse.as<float>() : lse_) + s * group;
    job.lse_stride = heads;
    job.sliding_window = sliding_window_;
    if (rule != ColumnRule{}) {
      noises[s] = {rule.gumbel ? seeds.data() + s * group : nullptr,
                   static_cast<float>(1 / rule.temperature)};
      job.noise = &noises[s];
    }
    job.sums = scores.data.data() + s * group * scores.ld;
    job.sums_stride = scores.ld;
    jobs.push_back(job);
    if (lse_ != nullptr) continue;
    AttentionJob attention;
    static_cast<CausalRows&>(attention) = job;
    attention.out = unused.as<float>() + s * group * head_dim;
    attention.out_stride = heads * head_dim;
    attention.lse = lse.as<float>() + s * group;
    attention.lse_stride = heads;
    attention.pass = {pass_.positions[0], pass_.rows};
    dense.push_back(attention);
  }
  if (!dense.empty()) backend_.attend(scale_, dense);
  backend_.add_column_sums(scale_, jobs);
}

const ColumnMass& AttentionStats::column_mass(const ColumnRule& rule) {
  ColumnMasses& all = columns_ != nullptr ? *columns_ : own_columns_;
  ColumnMass& mass = all.by_rule[rule];
  if (!counted_.insert(rule).second) return mass;
  const auto start = Clock::now();
  int largest = 0;
  for (const KvSet& set : sets_) largest = std::max(largest, set.size());
  grow(mass.scores, shape_.heads, static_cast<std::size_t>(largest));
  add_masses(rule, mass.scores);
  mass.rows += pass_.rows;
  for (int h = 0; h < shape_.heads; ++h) {
    multiply_adds_ += static_cast<double>(pass_.rows) * set_of(h).size() * shape_.head_dim;
  }
  all.seconds += seconds_since(start);
  return mass;
}

}  // namespace turnbench
