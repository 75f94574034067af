#include "methods/parts/question_attention.h"

#include <algorithm>
#include <cstddef>
#include <span>

#include "inference/backend/backend.h"

namespace turnbench {
namespace {

/// The number of a set's slots with positions before `end`.
std::int32_t slots_before(const KvHeadCache& set, std::int32_t end) {
  std::int32_t count = std::min(set.size(), end);
  while (count > 0 && set.position(count - 1) >= end) --count;
  return count;
}

}  // namespace

void QuestionAttention::add(const LayerView& view, MatrixView<const float> lse, int first, int rows,
                            std::int32_t end) {
  const std::int64_t heads = view.heads_per_set(), dim = view.shape.head_dim;
  const std::int32_t count = slots_before(view.sets.front(), end);
  std::vector<float> of_slots(static_cast<std::size_t>(view.shape.heads * count));
  const MatrixView<float> sums(of_slots.data(), view.shape.heads, count);
  const std::int32_t begin = view.first_position + first;
  const std::vector<std::int32_t> positions = slots_between(begin, begin + rows);
  std::vector<KvHeadCache> earlier;
  std::vector<ColumnJob> jobs;
  earlier.reserve(view.sets.size());  // jobs refer to its elements
  for (std::size_t s = 0; s < view.sets.size(); ++s) {
    const std::int64_t head = static_cast<std::int64_t>(s) * heads;
    earlier.push_back(view.sets[s]);
    earlier.back().truncate(count);
    ColumnJob& job = jobs.emplace_back();
    job.keys = &earlier.back();
    job.q = view.queries.rows_at(first, rows).columns_at(head * dim, heads * dim);
    job.positions = positions.data();
    job.pass_rows = view.rows;
    job.sliding_window = view.sliding_window;
    job.lse = lse.rows_at(first, rows).columns_at(head, heads);
    job.sums = sums.rows_at(head, heads);
  }
  view.backend->add_column_sums(view.scale, jobs);
  sums_.resize(static_cast<std::size_t>(view.shape.heads * end));
  for (std::int64_t h = 0; h < view.shape.heads; ++h) {
    for (std::int32_t slot = 0; slot < count; ++slot) {
      sums_[h * end + earlier.front().position(slot)] += sums.row(h)[slot];
    }
  }
}

void QuestionAttention::set(const HeadScores& sums, int heads, std::int32_t end) {
  sums_.clear();
  for (int h = 0; h < heads; ++h) {
    const std::span<const float> of_head = sums.head(h, end);
    sums_.insert(sums_.end(), of_head.begin(), of_head.end());
  }
}

std::vector<double> QuestionAttention::of_tokens(int heads) const {
  std::vector<double> out(sums_.size() / static_cast<std::size_t>(heads));
  for (std::size_t i = 0; i < sums_.size(); ++i)
    out[i % out.size()] += static_cast<double>(sums_[i]);
  return out;
}

}  // namespace turnbench
