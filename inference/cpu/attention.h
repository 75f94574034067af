#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "common/thread_pool.h"
#include "inference/backend.h"
#include "inference/cpu/attention_state.h"
#include "inference/memory.h"

namespace turnbench::cpu {

/// Scratch that calls reuse: one per worker, and one for what a call shares.
struct AttentionWorkspace {
  explicit AttentionWorkspace(int workers) : worker(static_cast<std::size_t>(workers)) {}
  std::vector<Scratch> worker;
  Scratch packed, partial;
  std::size_t bytes() const;
};

/// Runs all jobs.  O(n) memory: no buffer of rows x keys exists.  A row's result depends only on
/// its own query and the keys it reads, never on the other rows, the threads or the chunking:
/// scores are chains over head_dim, keys are taken in tiles of 64 and segments of 1024 slots in
/// order.
void attend(ThreadPool& pool, float scale, std::span<const AttentionJob> jobs,
            AttentionWorkspace& workspace);

/// The part of `attend` for jobs `single`, of one row each and without patterns: segments of the
/// keys in parallel.
void attend_single_rows(ThreadPool& pool, float scale, std::span<const AttentionJob> jobs,
                        std::span<const std::size_t> single, AttentionWorkspace& workspace);

/// The jobs' column sums.  A sum takes its rows one by one in order, so neither threads nor the
/// split into passes show.
void add_column_sums(ThreadPool& pool, float scale, std::span<const ColumnJob> jobs,
                     AttentionWorkspace& workspace);

/// Bytes of scratch that the attention of a pass takes with `threads` threads.
std::size_t attention_scratch_bytes(const ModelConfig& config, const PassSize& pass, int threads);

/// Packs the tiles of sets, in waves that fit into the workspace: body(begin, packed) has those of
/// sets[begin], sets[begin + 1], ... .
void for_each_packed_wave(
    ThreadPool& pool, std::span<const KvHeadCache* const> sets, AttentionWorkspace& workspace,
    const std::function<void(std::size_t begin, std::span<const PackedSet>)>& body);

/// Dense causal probabilities of some rows of one query head: out[r, s] for slot s, 0 where row r,
/// at positions[r], does not see.  q: [rows, head_dim]; out: [rows, columns], at least the set's
/// size rounded up to 64 wide, and written whole.
void row_probabilities(float scale, const KvHeadCache& keys, MatrixView<const float> q,
                       const std::int32_t* positions, int sliding_window, MatrixView<float> out);

}  // namespace turnbench::cpu
