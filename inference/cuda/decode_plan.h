#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "inference/backend.h"

namespace turnbench::cuda {

constexpr int kDecodeHeadDim = 256;  ///< at most

/// What the row of one job sees: slots [first, first + keys) of its set, or of the list.
struct DecodeJob {
  const float* q;
  float *out, *lse;
  int pages, slots;  // where its table and its list begin among all; slots < 0: no list
  int first, keys;
  int segment, segments;  // keys of a segment; segments
  int heads, partial;     // segment s, head h leaves partial result partial + s * heads + h
};

/// One block: part p is segment p / g and the heads from kHeads * (p % g), of g groups of heads.
struct DecodeTask {
  int job, part;
};

/// The jobs' descriptions as they go to the device; it looks into the jobs.
struct DecodePlan {
  std::vector<DecodeJob> jobs;
  std::vector<DecodeTask> tasks;
  std::vector<std::span<const std::byte* const>> tables;  // of pages, to lie one after the other
  std::vector<std::span<const std::int32_t>> lists;       // of slots, as well
  int partials = 0, longest = 0, max_heads = 0;
};

/// The plan of jobs of a single row, of which a block takes `heads_per_block` heads.  A table of
/// pages that several jobs read is listed once.  Throws a runtime error where rows of a cache
/// cannot be read.
DecodePlan plan_decode(std::span<const AttentionJob* const> jobs, int heads_per_block);

/// Segments of up to `keys` keys, at most.
std::int64_t max_segments(std::int64_t keys);

}  // namespace turnbench::cuda
