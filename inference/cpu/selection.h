#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "common/thread_pool.h"
#include "inference/backend/selection_jobs.h"
#include "inference/cpu/attention.h"

namespace turnbench::cpu {

// The operations of Backend that select tokens; see selection_jobs.h.  Jobs are divided into pieces
// that threads share; results do not depend on this division.

void score_vectors(ThreadPool& pool, float scale, std::span<const VectorScoreJob> jobs,
                   AttentionWorkspace& workspace);
void score_keys(ThreadPool& pool, float scale, std::span<const KeyScoreJob> jobs,
                AttentionWorkspace& workspace);
void update_page_bounds(ThreadPool& pool, std::span<const PageBoundsJob> jobs);
void score_pages(ThreadPool& pool, float scale, std::span<const PageScoreJob> jobs,
                 AttentionWorkspace& workspace);
void score_codes(ThreadPool& pool, float scale, std::span<const CodeScoreJob> jobs,
                 AttentionWorkspace& workspace);
void transpose_keys(ThreadPool& pool, std::span<const TransposeKeysJob> jobs,
                    AttentionWorkspace& workspace);
void score_dimensions(ThreadPool& pool, float scale, std::span<const DimensionScoreJob> jobs,
                      AttentionWorkspace& workspace);
void reduce_heads(ThreadPool& pool, std::span<const ReduceHeadsJob> jobs,
                  AttentionWorkspace& workspace);
void slot_mass(ThreadPool& pool, std::span<const SlotMassJob> jobs, AttentionWorkspace& workspace);
void top_k(ThreadPool& pool, std::span<const TopKJob> jobs, AttentionWorkspace& workspace);
void assign_nearest(ThreadPool& pool, std::span<const NearestJob> jobs,
                    AttentionWorkspace& workspace);
void read_rows(ThreadPool& pool, std::span<const ReadRowsJob> jobs);
void add_values(ThreadPool& pool, std::span<const AddValuesJob> jobs);
void rebuild_keys(ThreadPool& pool, std::span<const RebuildKeysJob> jobs,
                  AttentionWorkspace& workspace);
void blend(std::span<const BlendJob> jobs);
void merge(ThreadPool& pool, std::span<const MergeJob> jobs);

/// A rebuilt key: its source and its destination.
struct RebuiltKey {
  std::int32_t row, slot;
};
constexpr int kRebuiltTogether = 4;

/// The work of a task: items [first, first + count) of a job.
struct Piece {
  std::size_t job;
  std::int64_t first, count;
};

/// Divides the items [first_of(job), end_of(job)) of every job at multiples of `grain`.
template <typename Jobs, typename First, typename End>
std::vector<Piece> pieces_of(const Jobs& jobs, std::int64_t grain, const First& first_of,
                             const End& end_of) {
  std::vector<Piece> out;
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    const std::int64_t end = end_of(jobs[i]);
    for (std::int64_t at = first_of(jobs[i]), next; at < end; at = next) {
      next = std::min(end, (at / grain + 1) * grain);
      out.push_back({i, at, next - at});
    }
  }
  return out;
}
/// The same for the items [0, end_of(job)).
template <typename Jobs, typename End>
std::vector<Piece> pieces_of(const Jobs& jobs, std::int64_t grain, const End& end_of) {
  return pieces_of(
      jobs, grain, [](const auto&) { return 0; }, end_of);
}

/// The maximum of need(job) over all jobs, in floats of scratch.
template <typename Jobs, typename Need>
std::int64_t most_floats(const Jobs& jobs, const Need& need) {
  std::int64_t out = 0;
  for (const auto& job : jobs) out = std::max<std::int64_t>(out, need(job));
  return out;
}

/// Calls body(piece, scratch) for all pieces, with `floats` floats of scratch.
template <typename Body>
void for_each_piece(ThreadPool& pool, std::span<const Piece> pieces, std::int64_t floats,
                    AttentionWorkspace& workspace, const Body& body) {
  pool.parallel_for(pieces.size(), [&](std::size_t t, int worker) {
    body(pieces[t], workspace.worker[worker].get(floats));
  });
}

}  // namespace turnbench::cpu
