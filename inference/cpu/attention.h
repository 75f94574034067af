#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "common/thread_pool.h"
#include "inference/backend/backend.h"
#include "inference/cpu/attention_state.h"
#include "inference/model/memory.h"

namespace turnbench::cpu {

/// Scratch memory that calls reuse: one area per worker thread, and one that a call's threads
/// share.
struct AttentionWorkspace {
  explicit AttentionWorkspace(int workers) : worker(static_cast<std::size_t>(workers)) {}
  std::vector<Scratch> worker;
  Scratch packed, partial;
  /// Counts the largest worker area for every worker, because the assignment of tasks to workers is
  /// not deterministic.
  std::size_t bytes() const;
};

/// Computes the attention of all jobs with an online softmax (Dao et al., FlashAttention, 2022);
/// see AttentionJob.  Memory is linear in the number of keys.  A row's result depends only on its
/// query and the keys that it reads, not on other rows, threads or chunks: a score is one chain of
/// multiply-adds over head_dim, and keys are processed in order, in tiles of 64 and segments of
/// 1024 slots.  With products of bf16 (AttentionJob::math), scores and weighted values are sums as
/// in `multiply`, over head_dim and over the 64 slots of a tile; the softmax is the same.
void attend(ThreadPool& pool, float scale, std::span<const AttentionJob> jobs,
            AttentionWorkspace& workspace);

/// `attend` for the jobs with the indices `single`, which have one row each and no patterns: the
/// decode steps.  Segments of the keys are computed in parallel and merged in order.
void attend_single_rows(ThreadPool& pool, float scale, std::span<const AttentionJob> jobs,
                        std::span<const std::size_t> single, AttentionWorkspace& workspace);

/// Adds the column sums of all jobs; see ColumnJob.  Rows are added one by one in order, so the
/// sums do not depend on threads or on the split into passes.
void add_column_sums(ThreadPool& pool, float scale, std::span<const ColumnJob> jobs,
                     AttentionWorkspace& workspace);

/// Upper bound of the scratch memory for the attention of a pass with `threads` threads, in bytes.
std::size_t attention_scratch_bytes(const ModelConfig& config, const PassSize& pass, int threads);

/// The factors of a job's products.
Factors factors_of(const AttentionJob& job);

struct SetToPack {
  const KvHeadCache* set;
  Factors factors = Factors::kF32;
};

/// Packs the tiles of sets in waves that fit into the workspace.  Calls body(begin, packed) for
/// each wave with the packed sets of sets[begin], sets[begin + 1], ...
void for_each_packed_wave(
    ThreadPool& pool, std::span<const SetToPack> sets, AttentionWorkspace& workspace,
    const std::function<void(std::size_t begin, std::span<const PackedSet>)>& body);

/// See Backend::row_probabilities.  q: [rows, head_dim]; positions: [rows]; out: [rows, columns],
/// columns at least the set's size rounded up to 64.
void row_probabilities(float scale, const KvHeadCache& keys, MatrixView<const float> q,
                       const std::int32_t* positions, int sliding_window, MatrixView<float> out);

}  // namespace turnbench::cpu
