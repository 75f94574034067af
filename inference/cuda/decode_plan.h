#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "inference/backend/backend.h"

namespace turnbench::cuda {

constexpr int kLongestSegment = 512;  ///< in keys

/// A job for the kernels.  Its row sees the keys [first, first + keys): slots of its set, or
/// entries of its list of slots.
struct DecodeJob {
  const float* q;
  float *out, *lse;
  const std::byte* base;             // of the range of its set's pages
  std::uint32_t stride, key_offset;  // of that range; of the keys in a page; in bytes
  int pages, slots;  // begin of its page table and its list in the plan's; slots < 0: no list
  int slot_heads;    // begin of its list of heads; < 0: all heads attend to all slots
  int first, keys;
  int segment;         // keys per segment
  int heads, partial;  // the result of segment s and head h has index partial + s * heads + h

  constexpr int segments() const { return (keys + segment - 1) / segment; }
};

/// The work of one block.  With g groups of kHeads heads, part p is segment p / g for the heads
/// from kHeads * (p % g) on.
struct DecodeTask {
  int job, part;
};

/// The arrays to upload for a list of jobs.  Refers to the jobs, which must outlive it.
struct DecodePlan {
  std::vector<DecodeJob> jobs;
  std::vector<DecodeTask> tasks;
  std::vector<std::span<const std::uint32_t>> tables;  // indices of pages, to be concatenated
  std::vector<std::span<const std::int32_t>> lists;    // lists of slots, to be concatenated
  std::vector<std::span<const std::uint32_t>> heads;   // of those slots, to be concatenated
  int partials = 0;                                    // number of partial results
  int longest_segment = 0;                             // in keys
  int max_heads = 0;                                   // of a job
};

/// Makes the plan for jobs with a single row each.  A block computes `heads_per_block` heads.  A
/// page table that several jobs use is listed once.
/// @throws Error (runtime) if the kernels do not support the layout of a set's rows; see
/// check_attention_layout.
DecodePlan plan_decode(std::span<const AttentionJob* const> jobs, int heads_per_block);

/// Upper bound of the number of segments of `keys` keys.
std::int64_t max_segments(std::int64_t keys);

}  // namespace turnbench::cuda
