#include "inference/cuda/attention_rows.h"

#include <algorithm>
#include <map>
#include <utility>

#include "inference/cuda/attention.h"

namespace turnbench::cuda {
namespace {

/// Lists of integers that go to the device in one piece.  Until then a list is its place.
class Lists {
 public:
  std::size_t add(std::span<const std::int32_t> list) {
    const std::size_t at = values_.size();
    values_.insert(values_.end(), list.begin(), list.end());
    return at;
  }
  /// `count` zeros.
  std::size_t add_zeros(std::size_t count) {
    values_.resize(values_.size() + count);
    return values_.size() - count;
  }
  /// Bits [0, count), those set that `list` has below `end`.
  std::size_t add_bits(std::span<const std::int32_t> list, std::int32_t count, std::int32_t end) {
    const std::size_t at = add_zeros(static_cast<std::size_t>(count) / 32 + 1);
    for (std::int32_t i : list) {
      if (i >= end) break;  // it ascends
      std::int32_t& word = values_[at + static_cast<std::size_t>(i) / 32];
      word = static_cast<std::int32_t>(static_cast<std::uint32_t>(word) | 1u << (i % 32));
    }
    return at;
  }
  std::int32_t* data(std::size_t at) { return values_.data() + at; }
  void upload(Context& context) { device_ = context.upload(values_); }
  const std::int32_t* on_device(std::size_t at) const { return device_ + at; }

 private:
  std::vector<std::int32_t> values_;
  const std::int32_t* device_ = nullptr;
};

/// Where a pattern's lists are.
struct PatternLists {
  std::size_t columns = 0, offsets = 0, column_bits = 0, offset_bits = 0, blocks = 0, lists = 0;
};

PatternLists add_lists(const HeadPattern& p, const AttentionJob& job, int reach, Lists& lists) {
  PatternLists at;
  at.columns = lists.add(p.columns);
  at.offsets = lists.add(p.offsets);
  if (p.kind == HeadPattern::Kind::kLines && p.granularity == HeadPattern::Granularity::kLine) {
    const std::int32_t end = job.positions[job.rows - 1] + 1;
    at.column_bits = lists.add_bits(p.columns, end, end);
    at.offset_bits = lists.add_bits(p.offsets, end, std::min(end, reach));
  }
  if (p.kind == HeadPattern::Kind::kBlocks) {
    at.lists = lists.add_zeros(p.blocks.size() + 1);
    std::int32_t count = 0;
    for (std::size_t i = 0; i < p.blocks.size(); ++i) {
      const std::size_t list = lists.add(p.blocks[i]);
      if (i == 0) at.blocks = list;
      count += static_cast<std::int32_t>(p.blocks[i].size());
      *lists.data(at.lists + i + 1) = count;
    }
  }
  return at;
}

PatternView view_of(const HeadPattern& p, const PatternPass& pass, const PatternLists& at,
                    const Lists& lists) {
  PatternView v = {};
  v.kind = p.kind;
  v.lines_exact = p.granularity == HeadPattern::Granularity::kLine;
  v.sinks = p.sinks;
  v.local = p.local;
  v.dense_from = pass.first_row + pass.rows - p.dense_rows;
  if (p.kind == HeadPattern::Kind::kBlocks) {
    v.block_size = p.block_size;
    v.lead = BlockGrid(p.block_size, pass.first_row).lead;
    v.block_rows = p.block_rows;
  }
  v.columns = lists.on_device(at.columns);
  v.column_count = static_cast<int>(p.columns.size());
  v.offsets = lists.on_device(at.offsets);
  v.offset_count = static_cast<int>(p.offsets.size());
  v.column_bits = reinterpret_cast<const std::uint32_t*>(lists.on_device(at.column_bits));
  v.offset_bits = reinterpret_cast<const std::uint32_t*>(lists.on_device(at.offset_bits));
  v.blocks = lists.on_device(at.blocks);
  v.lists = lists.on_device(at.lists);
  return v;
}

int reach_of(const AttentionJob& job) {
  return job.sliding_window > 0 ? job.sliding_window : kEverywhere;
}

bool is_dense(const AttentionJob& job, int head) {
  return job.patterns == nullptr || job.patterns[head].kind == HeadPattern::Kind::kDense;
}

/// The rows [first, first + rows) of a job, as a dense task.
RowsTask dense_task(const AttentionJob& job, int index, int first, int rows) {
  const KvSet& keys = *job.keys;
  const std::int32_t lowest = job.positions[first];
  const std::int32_t highest = job.positions[std::min(first + rows, job.rows) - 1];
  const bool whole = keys.is_whole();
  const auto slot_of = [&](std::int32_t position) {  // the first at or after it
    return whole ? std::clamp(position, 0, keys.size()) : keys.lower_bound(position);
  };
  RowsTask task = {index,
                   0,
                   first,
                   0,
                   (slot_of(highest + 1) + kTileKeys - 1) / kTileKeys,
                   0,
                   slot_of(lowest + 1) / kTileKeys};
  if (job.sliding_window > 0) {
    task.begin = slot_of(lowest - job.sliding_window + 1) / kTileKeys;
    task.whole_begin = (slot_of(highest - job.sliding_window + 1) + kTileKeys - 1) / kTileKeys;
  }
  return task;
}

/// Adds the tasks of all heads for which `wanted`, those with the most keys first.
template <typename Wanted>
std::vector<RowsTask> tasks_of(std::span<const AttentionJob* const> jobs, int rows,
                               const Wanted& wanted) {
  std::vector<RowsTask> blocks, tasks;
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    std::vector<int> heads;
    for (int h = 0; h < jobs[i]->heads; ++h) {
      if (wanted(*jobs[i], h)) heads.push_back(h);
    }
    if (heads.empty()) continue;
    for (int first = 0; first < jobs[i]->rows; first += rows)
      blocks.push_back(dense_task(*jobs[i], static_cast<int>(i), first, rows));
  }
  std::stable_sort(blocks.begin(), blocks.end(), [](const RowsTask& a, const RowsTask& b) {
    return a.end - a.begin > b.end - b.begin;
  });
  for (RowsTask task : blocks) {
    const AttentionJob& job = *jobs[static_cast<std::size_t>(task.job)];
    for (task.head = 0; task.head < job.heads; ++task.head) {
      if (wanted(job, task.head)) tasks.push_back(task);
    }
  }
  return tasks;
}

/// The jobs by the layout of their sets' pages.
std::vector<std::vector<const AttentionJob*>> by_layout(std::span<const AttentionJob* const> jobs) {
  std::map<std::pair<DType, int>, std::vector<const AttentionJob*>> groups;
  for (const AttentionJob* job : jobs) {
    if (job->rows > 0)
      groups[{job->keys->layout().dtype, job->keys->layout().head_dim}].push_back(job);
  }
  std::vector<std::vector<const AttentionJob*>> out;
  for (auto& [layout, group] : groups) out.push_back(std::move(group));
  return out;
}

}  // namespace

RowsPlan plan_rows(Context& context, std::span<const AttentionJob* const> jobs, int dense_rows) {
  Lists lists;
  std::vector<std::size_t> positions;
  std::vector<PatternLists> pattern_lists;
  for (const AttentionJob* job : jobs) {
    positions.push_back(lists.add({job->positions, static_cast<std::size_t>(job->rows)}));
    for (int h = 0; job->patterns != nullptr && h < job->heads; ++h)
      pattern_lists.push_back(add_lists(job->patterns[h], *job, reach_of(*job), lists));
  }
  lists.upload(context);

  std::vector<PatternView> patterns;
  for (const AttentionJob* job : jobs) {
    for (int h = 0; job->patterns != nullptr && h < job->heads; ++h)
      patterns.push_back(
          view_of(job->patterns[h], job->pass, pattern_lists[patterns.size()], lists));
  }
  const PatternView* next_pattern = context.upload(patterns);

  std::vector<RowsJob> views;
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    const AttentionJob& job = *jobs[i];
    RowsJob& v = views.emplace_back();
    v.keys = context.view(*job.keys);
    v.q = job.q;
    v.out = job.out;
    v.lse = job.lse;
    v.q_stride = static_cast<std::int64_t>(job.q_stride);
    v.out_stride = static_cast<std::int64_t>(job.out_stride);
    v.lse_stride = static_cast<std::int64_t>(job.lse_stride);
    v.positions = lists.on_device(positions[i]);
    v.rows = job.rows;
    v.reach = reach_of(job);
    v.pass = job.pass;
    if (job.patterns != nullptr) {
      v.patterns = next_pattern;
      next_pattern += job.heads;
    }
  }

  const PageLayout& layout = jobs[0]->keys->layout();
  RowsPlan plan{layout.dtype, layout.head_dim, context.upload(views)};
  const std::vector<RowsTask> dense = tasks_of(jobs, dense_rows, is_dense);
  const std::vector<RowsTask> patterned = tasks_of(
      jobs, kPatternBlock, [](const AttentionJob& job, int head) { return !is_dense(job, head); });
  plan.dense = context.upload(dense);
  plan.dense_count = static_cast<unsigned>(dense.size());
  plan.patterned = context.upload(patterned);
  plan.patterned_count = static_cast<unsigned>(patterned.size());
  return plan;
}

void attend_rows(Context& context, float scale, std::span<const AttentionJob* const> jobs) {
  for (const std::vector<const AttentionJob*>& group : by_layout(jobs)) {
    const PageLayout& layout = group[0]->keys->layout();
    context.begin();
    if (layout.dtype == DType::kF32) {
      launch_rows_32(context, scale, plan_rows(context, group, kDenseRows32));
    } else {
      launch_rows_16(context, scale, plan_rows(context, group, dense_rows_16(layout.head_dim)));
    }
  }
}

}  // namespace turnbench::cuda
