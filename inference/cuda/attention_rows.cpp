#include "inference/cuda/attention_rows.h"

#include <algorithm>
#include <map>
#include <utility>

#include "inference/cuda/attention.h"

namespace turnbench::cuda {
namespace {

/// Lists of integers that are uploaded together.  A list is identified by its begin in the whole.
class Lists {
 public:
  std::size_t add(std::span<const std::int32_t> list) {
    const std::size_t at = values_.size();
    values_.insert(values_.end(), list.begin(), list.end());
    return at;
  }
  /// Adds `count` zeros.
  std::size_t add_zeros(std::size_t count) {
    values_.resize(values_.size() + count);
    return values_.size() - count;
  }
  /// Adds bits [0, count); those in `list` that are below `end` are set.
  std::size_t add_bits(std::span<const std::int32_t> list, std::int32_t count, std::int32_t end) {
    const std::size_t at = add_zeros(static_cast<std::size_t>(count) / 32 + 1);
    for (std::int32_t i : list) {
      if (i >= end) break;  // the list ascends
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

/// The begins of a pattern's lists.
struct PatternLists {
  std::size_t columns = 0, offsets = 0, column_bits = 0, offset_bits = 0, blocks = 0, lists = 0;
};

PatternLists add_lists(const HeadPattern& p, const AttentionJob& job, int reach, Lists& lists) {
  PatternLists at;
  at.columns = lists.add(p.columns);
  at.offsets = lists.add(p.offsets);
  if (p.kind == HeadPattern::Kind::kVerticalSlash &&
      p.granularity == HeadPattern::Granularity::kLine) {
    const std::int32_t end = job.positions[job.rows() - 1] + 1;
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
  v.first_dense_row = pass.first_position + pass.rows - p.dense_rows;
  if (p.kind == HeadPattern::Kind::kBlocks) {
    v.block_size = p.block_size;
    v.lead = BlockGrid(p.block_size, pass.first_position).lead;
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

/// Makes the dense task for rows [first, first + rows) of a job.
RowsTask dense_task(const AttentionJob& job, int index, int first, int rows) {
  const KvHeadCache& keys = *job.keys;
  const std::int32_t lowest = job.positions[first];
  const std::int32_t highest = job.positions[std::min(first + rows, job.rows()) - 1];
  const bool whole = keys.is_contiguous();
  const auto slot_of = [&](std::int32_t position) {  // the first slot at or after the position
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
    task.unmasked_begin = (slot_of(highest - job.sliding_window + 1) + kTileKeys - 1) / kTileKeys;
  }
  return task;
}

/// Tiles per part of a job whose keys are split.  Few rows over many keys would leave most of the
/// device idle (Dao et al., "Flash-Decoding for long-context inference", 2023).  The length is
/// fixed, so that parts depend only on the job.
constexpr int kPartTiles = 64;

/// The number of parts of a job's keys; 1 if they are not split.
int parts_of(const AttentionJob& job) {
  if (job.patterns != nullptr || job.rows() > kMaxSplitRows) return 1;
  const RowsTask all = dense_task(job, 0, 0, job.rows());
  return all.end - all.begin <= kPartTiles ? 1 : (all.end + kPartTiles - 1) / kPartTiles;
}

/// The content of a RowsJob: part `part` of `parts` of a job.  For a split job itself, `parts` is
/// 0.
struct View {
  const AttentionJob* job;
  int part, parts;
};

/// The tasks of all heads for which wanted(job, head) is true; those with the most keys first.
template <typename Wanted>
std::vector<RowsTask> tasks_of(std::span<const View> views, int rows, const Wanted& wanted) {
  std::vector<RowsTask> blocks, tasks;
  for (std::size_t i = 0; i < views.size(); ++i) {
    const auto& [job, part, parts] = views[i];
    bool any = false;
    for (int h = 0; h < job->heads() && part < parts; ++h) any = any || wanted(*job, h);
    if (!any) continue;
    for (int first = 0; first < job->rows(); first += rows) {
      RowsTask task = dense_task(*job, static_cast<int>(i), first, rows);
      if (parts > 1) {  // even without keys: the rows then see nothing in it
        task.end = std::min(task.end, (part + 1) * kPartTiles);
        task.begin = std::min(std::max(task.begin, part * kPartTiles), task.end);
      }
      blocks.push_back(task);
    }
  }
  std::stable_sort(blocks.begin(), blocks.end(), [](const RowsTask& a, const RowsTask& b) {
    return a.end - a.begin > b.end - b.begin;
  });
  for (RowsTask task : blocks) {
    const AttentionJob& job = *views[task.job].job;
    for (task.head = 0; task.head < job.heads(); ++task.head) {
      if (wanted(job, task.head)) tasks.push_back(task);
    }
  }
  return tasks;
}

/// Groups jobs by page layout.
std::vector<std::vector<const AttentionJob*>> by_layout(std::span<const AttentionJob* const> jobs) {
  std::map<std::pair<DType, int>, std::vector<const AttentionJob*>> groups;
  for (const AttentionJob* job : jobs) {
    if (job->rows() > 0)
      groups[{job->keys->layout().dtype, job->keys->layout().head_dim}].push_back(job);
  }
  std::vector<std::vector<const AttentionJob*>> out;
  for (auto& [layout, group] : groups) out.push_back(std::move(group));
  return out;
}

/// Makes the RowsJob of a job, without positions and patterns.
RowsJob rows_job(Context& context, const AttentionJob& job) {
  RowsJob v = {};
  v.keys = context.view(*job.keys);
  v.q = job.q.data;
  v.out = job.out.data;
  v.lse = job.lse.data;
  v.q_stride = job.q.stride;
  v.out_stride = job.out.stride;
  v.lse_stride = job.lse.stride;
  v.rows = job.rows();
  v.heads = job.heads();
  v.reach = reach_of(job);
  v.pass = job.pass;
  return v;
}

/// Adds the RowsJobs of the parts of a job, with scratch for their results.
RowsMerge add_parts(Context& context, const AttentionJob& job, int parts,
                    std::vector<RowsJob>& rows_jobs, std::vector<View>& views) {
  const std::int64_t pairs = job.q.rows * job.heads(), floats = job.q.rows * job.q.columns;
  RowsJob part = rows_jobs.back();
  const int whole = static_cast<int>(rows_jobs.size()) - 1;
  part.out = context.scratch<float>(parts * floats);
  part.lse = context.scratch<float>(parts * pairs);
  part.out_stride = job.q.columns;
  part.lse_stride = job.heads();
  const RowsMerge merge{whole, parts, part.out, part.lse};
  for (int p = 0; p < parts; ++p) {
    rows_jobs.push_back(part);
    views.push_back({&job, p, parts});
    part.out += floats;
    part.lse += pairs;
  }
  return merge;
}

/// A list in device memory.
template <typename T>
DeviceList<T> uploaded(Context& context, const std::vector<T>& list) {
  return {context.upload(list), static_cast<unsigned>(list.size())};
}

}  // namespace

std::int64_t max_parts(std::int64_t keys) {
  const std::int64_t tiles = keys / kTileKeys + 2;  // the first and the last tile may be partial
  return (tiles + kPartTiles - 1) / kPartTiles;
}

void check_attention_layout(const PageLayout& layout) {
  const int multiple = 16 / static_cast<int>(size_of(layout.dtype));  // pieces of 16 bytes
  if (layout.head_dim % multiple == 0 && layout.head_dim <= kMaxAttentionHeadDim) return;
  throw runtime_error(
      "CUDA, attention: found a head_dim of {} in {}, expected a multiple of {} up to {}",
      layout.head_dim, name_of(layout.dtype), multiple, kMaxAttentionHeadDim);
}

RowsPlan plan_rows(Context& context, std::span<const AttentionJob* const> jobs, int dense_rows) {
  Lists lists;
  std::vector<std::size_t> positions;
  std::vector<PatternLists> pattern_lists;
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    const AttentionJob* job = jobs[i];
    // The sets of a sequence share its rows.
    const bool same =
        i > 0 && job->positions == jobs[i - 1]->positions && job->rows() == jobs[i - 1]->rows();
    positions.push_back(same ? positions.back()
                             : lists.add(std::span(job->positions, job->q.rows)));
    for (int h = 0; job->patterns != nullptr && h < job->heads(); ++h)
      pattern_lists.push_back(add_lists(job->patterns[h], *job, reach_of(*job), lists));
  }
  lists.upload(context);

  std::vector<PatternView> patterns;
  for (const AttentionJob* job : jobs) {
    for (int h = 0; job->patterns != nullptr && h < job->heads(); ++h)
      patterns.push_back(
          view_of(job->patterns[h], job->pass, pattern_lists[patterns.size()], lists));
  }
  const PatternView* next_pattern = context.upload(patterns);

  std::vector<RowsJob> rows_jobs;
  std::vector<View> views;
  std::vector<RowsMerge> merges;
  RowsPlan plan;
  plan.dtype = jobs[0]->keys->layout().dtype;
  plan.head_dim = jobs[0]->keys->layout().head_dim;
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    const AttentionJob& job = *jobs[i];
    RowsJob& added = rows_jobs.emplace_back(rows_job(context, job));
    added.positions = lists.on_device(positions[i]);
    added.patterns = next_pattern;
    if (job.patterns != nullptr) next_pattern += job.heads();
    const int parts = parts_of(job);
    views.push_back({&job, 0, parts == 1 ? 1 : 0});
    if (parts > 1) {
      merges.push_back(add_parts(context, job, parts, rows_jobs, views));
      plan.max_merged_rows = std::max(plan.max_merged_rows, job.rows() * job.heads());
    }
  }
  plan.jobs = context.upload(rows_jobs);
  plan.dense = uploaded(context, tasks_of(views, dense_rows, is_dense));
  plan.patterned = uploaded(
      context, tasks_of(views, kPatternBlock,
                        [](const AttentionJob& job, int head) { return !is_dense(job, head); }));
  plan.merges = uploaded(context, merges);
  return plan;
}

void attend_rows(Context& context, float scale, std::span<const AttentionJob* const> jobs) {
  for (const std::vector<const AttentionJob*>& group : by_layout(jobs)) {
    const PageLayout& layout = group[0]->keys->layout();
    check_attention_layout(layout);
    const bool is_float = layout.dtype == DType::kF32;
    context.begin();
    const RowsPlan plan =
        plan_rows(context, group, is_float ? kDenseRows32 : dense_rows_16(layout.head_dim));
    (is_float ? launch_rows_32 : launch_rows_16)(context, scale, plan);
    merge_parts(context, plan);
  }
}

}  // namespace turnbench::cuda
