#include "inference/cuda/decode_plan.h"

#include <algorithm>
#include <unordered_map>

#include "inference/cuda/attention.h"
#include "inference/cuda/set_view.h"

namespace turnbench::cuda {
namespace {

constexpr int kSegments = 64, kShortestSegment = 64;  // the latter in keys

/// The length of segments in keys.  Few keys get short segments, so that one sequence fully uses
/// the device; many keys get long ones, so that the cost of partial results is small.
constexpr int segment_keys(int keys) {
  return std::clamp((keys / kSegments + kShortestSegment - 1) / kShortestSegment * kShortestSegment,
                    kShortestSegment, kLongestSegment);
}

/// The slots of the set, or the entries of the list, that a row sees: [begin, end).
struct Range {
  int begin, end;
};

Range visible(const AttentionJob& job) {
  const KvHeadCache& keys = *job.keys;
  const int all = job.slots == nullptr ? keys.size() : static_cast<int>(job.slots->size());
  const auto position = [&](int i) {
    return keys.position(job.slots == nullptr ? i : (*job.slots)[i]);
  };
  // The first slot or entry with a position of at least `wanted`, usually the first or the end.
  const auto lower_bound = [&](std::int64_t wanted) {
    if (all == 0 || position(0) >= wanted) return 0;
    if (position(all - 1) < wanted) return all;
    int low = 0, high = all - 1;
    while (high - low > 1) {
      const int middle = low + (high - low) / 2;
      (position(middle) < wanted ? low : high) = middle;
    }
    return high;
  };
  const std::int64_t at = job.positions[0];
  const int begin = job.sliding_window == 0 ? 0 : lower_bound(at + 1 - job.sliding_window);
  return {begin, std::max(begin, lower_bound(at + 1))};
}

}  // namespace

DecodePlan plan_decode(std::span<const AttentionJob* const> jobs, int heads_per_block) {
  DecodePlan plan;
  std::unordered_map<const KvHeadCache*, int> tables;
  int all_pages = 0, all_slots = 0, all_heads = 0;
  for (const AttentionJob* job : jobs) {
    check_attention_layout(job->keys->layout());
    check_on_device(*job->keys);
    const auto [table, is_new] = tables.try_emplace(job->keys, all_pages);
    if (is_new) {
      plan.tables.push_back(job->keys->page_indices());
      all_pages += static_cast<int>(plan.tables.back().size());
    }
    Range range = visible(*job);
    int slots = -1, slot_heads = -1;
    if (job->slots != nullptr) {
      slots = all_slots;
      plan.lists.push_back({job->slots->data() + range.begin, job->slots->data() + range.end});
      if (job->slot_heads != nullptr) {
        slot_heads = all_heads;
        plan.heads.push_back(
            {job->slot_heads->data() + range.begin, job->slot_heads->data() + range.end});
        all_heads += range.end - range.begin;
      }
      range = {0, range.end - range.begin};
      all_slots += range.end;
    }
    const int heads = job->heads(), keys = range.end - range.begin, segment = segment_keys(keys);
    const int index = static_cast<int>(plan.jobs.size());
    const PageTable pages = PageTable::of(*job->keys, nullptr);
    const std::size_t key_offset = job->pre_rope ? job->keys->layout().pre_rope_key_offset() : 0;
    const DecodeJob& added = plan.jobs.emplace_back(
        DecodeJob{job->q.data, job->out.data, job->lse.data, pages.base, pages.stride,
                  static_cast<std::uint32_t>(key_offset), table->second, slots, slot_heads,
                  range.begin, keys, segment, heads, plan.partials});
    const int parts = added.segments() * ((heads + heads_per_block - 1) / heads_per_block);
    for (int part = 0; part < parts; ++part) plan.tasks.push_back({index, part});
    plan.partials += added.segments() * heads;
    plan.longest_segment = std::max(plan.longest_segment, segment);
    plan.max_heads = std::max(plan.max_heads, heads);
  }
  return plan;
}

std::int64_t max_segments(std::int64_t keys) {
  return std::max<std::int64_t>(kSegments, keys / kLongestSegment + 1);
}

}  // namespace turnbench::cuda
