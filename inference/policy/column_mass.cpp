// Column sums of the attention matrix over all rows of a prefill: the product of queries and keys
// is recomputed tile by tile and normalised by the log-sum-exp of the preceding attention.

#include <algorithm>
#include <iterator>

#include "common/clock.h"
#include "common/error.h"
#include "common/random.h"
#include "inference/policy/attention_stats.h"

namespace turnbench {
namespace {

/// Grows to `slots` slots per head and keeps the scores.
void grow(HeadScores& scores, int heads, std::int64_t slots) {
  if (scores.stride >= slots) return;
  HeadScores wider;
  wider.stride = slots;
  wider.data.assign(heads * slots, 0.0f);
  for (int h = 0; h < heads && scores.stride > 0; ++h)
    std::copy_n(scores.rows(heads).row(h), scores.stride, wider.rows(heads).row(h));
  scores = std::move(wider);
}

}  // namespace

void AttentionStats::add_column_masses(const ColumnRule& rule, HeadScores& scores) {
  if (rule.causal_rows == 0)
    return add_column_masses(rule, {0, pass_.rows(), pass_.positions, sliding_window_, lse_},
                             scores);
  const int causal = std::min(rule.causal_rows, pass_.rows()), others = pass_.rows() - causal;
  // Rows see the keys at or before their position, so rows that see all keys get the last position.
  const std::vector<std::int32_t> end(others, pass_.positions[pass_.rows() - 1]);
  if (others > 0)
    add_column_masses(rule, {.first = 0, .count = others, .positions = end.data()}, scores);
  add_column_masses(rule, {.first = others, .count = causal, .positions = pass_.positions + others},
                    scores);
}

void AttentionStats::add_column_masses(const ColumnRule& rule, const MassRows& part,
                                       HeadScores& scores) {
  const std::int64_t heads = shape_.heads, rows = part.count, group = heads / std::ssize(sets_),
                     head_dim = shape_.head_dim;
  Buffer found, unused;
  std::vector<std::uint64_t> seeds;
  seeds.reserve(rule.gumbel ? rows * heads : 0);
  for (int r = part.first; rule.gumbel && r < part.first + part.count; ++r) {
    const auto position = static_cast<std::uint64_t>(pass_.positions[r]);
    for (int h = 0; h < shape_.heads; ++h)
      seeds.push_back(Random::from({noise_seed_, static_cast<std::uint64_t>(h), position}).next());
  }
  const MatrixView<const std::uint64_t> all_seeds(rule.gumbel ? seeds.data() : nullptr, rows,
                                                  heads);
  std::vector<RowNoise> noises;
  noises.reserve(sets_.size());  // jobs refer to the elements
  MatrixView<const float> lse = part.lse;
  MatrixView<float> new_lse, out;
  if (lse.data == nullptr) {
    found = Buffer(rows * heads * sizeof(float), backend_.memory());
    unused = Buffer(rows * heads * head_dim * sizeof(float), backend_.memory());
    lse = new_lse = {found.as<float>(), rows, heads};
    out = {unused.as<float>(), rows, heads * head_dim};
  }
  std::vector<AttentionJob> dense;
  std::vector<ColumnJob> jobs;
  std::int64_t head = 0;
  for (const KvHeadCache& set : sets_) {
    ColumnJob& job = jobs.emplace_back();
    job.keys = &set;
    job.q = pass_.q.rows_at(part.first, rows).columns_at(head * head_dim, group * head_dim);
    job.positions = part.positions;
    job.lse = lse.columns_at(head, group);
    job.sliding_window = part.sliding_window;
    if (rule.gumbel || rule.temperature != 1) {
      noises.push_back(
          {all_seeds.columns_at(head, group), static_cast<float>(1 / rule.temperature)});
      job.noise = &noises.back();
    }
    job.sums = scores.rows(shape_.heads).rows_at(head, group);
    if (part.lse.data == nullptr) {
      AttentionJob& attention = dense.emplace_back();
      static_cast<CausalRows&>(attention) = job;
      attention.out = out.columns_at(head * head_dim, group * head_dim);
      attention.lse = new_lse.columns_at(head, group);
      attention.pass = {part.positions[0], part.count};
    }
    head += group;
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
  make_readable();
  grow(mass.scores, shape_.heads, longest_set(sets_));
  add_column_masses(rule, mass.scores);
  mass.rows += pass_.rows();
  for (int h = 0; h < shape_.heads; ++h) {
    multiply_adds_ += static_cast<double>(pass_.q.rows) * set_of(h).size() * shape_.head_dim;
  }
  all.seconds += seconds_since(start);
  return mass;
}

}  // namespace turnbench
