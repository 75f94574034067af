// Column sums of the attention matrix over all rows of a prefill: one more product of queries and
// keys, tile by tile, whose rows are normalised by the log-sum-exp that attention has left behind.

#include <algorithm>

#include "common/clock.h"
#include "common/error.h"
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
  if (rule.causal_rows == 0)
    return add_masses(rule, {0, pass_.rows, pass_.positions, sliding_window_, lse_}, scores);
  const int causal = std::min(rule.causal_rows, pass_.rows), others = pass_.rows - causal;
  // A row sees what stands at or before its position: these stand at the end.
  const std::vector<std::int32_t> end(static_cast<std::size_t>(others),
                                      pass_.positions[pass_.rows - 1]);
  if (others > 0) add_masses(rule, {.first = 0, .count = others, .positions = end.data()}, scores);
  add_masses(rule, {.first = others, .count = causal, .positions = pass_.positions + others},
             scores);
}

void AttentionStats::add_masses(const ColumnRule& rule, const MassRows& part, HeadScores& scores) {
  const auto heads = static_cast<std::size_t>(shape_.heads), group = heads / sets_.size(),
             head_dim = static_cast<std::size_t>(shape_.head_dim),
             first = static_cast<std::size_t>(part.first),
             rows = static_cast<std::size_t>(part.count);
  Buffer found, unused;
  std::vector<std::uint64_t> seeds;
  seeds.reserve(rule.gumbel ? rows * heads : 0);
  for (std::size_t r = first; rule.gumbel && r < first + rows; ++r) {
    for (std::size_t h = 0; h < heads; ++h) {
      seeds.push_back(
          Random::from({noise_seed_, h, static_cast<std::uint64_t>(pass_.positions[r])}).next());
    }
  }
  std::vector<RowNoise> noises(sets_.size());
  if (part.lse == nullptr) {
    found = Buffer(rows * heads * sizeof(float), backend_.memory());
    unused = Buffer(rows * heads * head_dim * sizeof(float), backend_.memory());
  }
  const float* lse = part.lse == nullptr ? found.as<float>() : part.lse;
  std::vector<AttentionJob> dense;
  std::vector<ColumnJob> jobs;
  for (std::size_t s = 0; s < sets_.size(); ++s) {
    ColumnJob job;
    job.keys = &sets_[s];
    job.q = pass_.q + first * pass_.stride + s * group * head_dim;
    job.q_stride = pass_.stride;
    job.heads = static_cast<int>(group);
    job.positions = part.positions;
    job.rows = part.count;
    job.lse = lse + s * group;
    job.lse_stride = heads;
    job.sliding_window = part.sliding_window;
    if (rule.gumbel || rule.temperature != 1) {
      noises[s] = {rule.gumbel ? seeds.data() + s * group : nullptr,
                   static_cast<float>(1 / rule.temperature)};
      job.noise = &noises[s];
    }
    job.sums = scores.data.data() + s * group * scores.ld;
    job.sums_stride = scores.ld;
    jobs.push_back(job);
    if (part.lse != nullptr) continue;
    AttentionJob attention;
    static_cast<CausalRows&>(attention) = job;
    attention.out = unused.as<float>() + s * group * head_dim;
    attention.out_stride = heads * head_dim;
    attention.lse = found.as<float>() + s * group;
    attention.lse_stride = heads;
    attention.pass = {part.positions[0], part.count};
    dense.push_back(attention);
  }
  if (!dense.empty()) backend_.attend(scale_, dense);
  backend_.add_column_sums(scale_, jobs);
}

const ColumnMass& AttentionStats::column_mass(const ColumnRule& rule) {
  ColumnMasses& all = columns_ != nullptr ? *columns_ : own_columns_;
  ColumnMass& mass = all.by_rule[rule];
  if (!counted_.insert(rule).second) return mass;
  if (rule.causal_rows > 0 && mass.rows > 0) {
    throw runtime_error(
        "column masses of rows that see ahead: found a prompt in several passes, expected one");
  }
  const auto start = Clock::now();
  int largest = 0;
  for (const KvHeadCache& set : sets_) largest = std::max(largest, set.size());
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
