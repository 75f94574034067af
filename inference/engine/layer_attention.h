#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "inference/engine/joined_lists.h"
#include "inference/engine/kv_transfers.h"

namespace turnbench {

/// The patterns and selections of a layer's attention, by pass.
struct LayerDecisions {
  explicit LayerDecisions(std::size_t passes)
      : patterns(passes), selections(passes), readable(passes), joined(passes), far(passes) {
    stats.reserve(passes);  // views refer to its elements
    views.reserve(passes);
  }
  std::vector<AttentionStats> stats;
  std::vector<LayerView> views;
  std::vector<std::vector<HeadPattern>> patterns;  // empty: dense
  std::vector<Selection> selections;
  std::vector<Readable> readable;  // [passes]
  /// The lists of each set as one, if there are several and all is attended to alike:
  /// [passes][sets].
  std::vector<std::vector<JoinedList>> joined;
  /// What decode steps read at their greatest distance, and what they read beside it.
  struct Far {
    std::int64_t row = 0;                              // in the stage's matrices for such rows
    std::vector<std::vector<std::int32_t>> near, far;  // [lists], slots of the sets attended to
  };
  std::vector<Far> far;  // [passes]
};

/// Whether a selection policy decides what the rows of the pass attend to, block by block.
bool selects_for_prompt(const Pass& pass);
/// The pairs of the last `rows` of `tokens` tokens and the tokens at or before them.
double causal_pairs(double rows, double tokens);

/// The attention of one layer of a batch.
class LayerAttention {
 public:
  LayerAttention(EngineCore& core, KvTransfers& transfers) : core_(core), transfers_(transfers) {}

  /// Attention of layer `layer` of all passes, with what their policies decide before and after.
  void run(int layer, std::span<const Pass> passes, ForwardBatch& batch);
  /// What policies do with a layer after its attention.
  void after_attention(int layer, const Pass& pass, AttentionStats& stats, const LayerView& view);

 private:
  LayerDecisions ask_policies(int layer, std::span<const Pass> passes, const ForwardBatch& batch);
  /// One job for each KV set of a pass, or for each list of its selection if lists are not joined.
  std::vector<AttentionJob> attention_jobs(int layer, std::span<const Pass> passes,
                                           const ForwardBatch& batch,
                                           const LayerDecisions& decisions);
  /// Blends the attention outputs of decode steps with what their selections say.
  void blend_attention(int layer, const ForwardBatch& batch, const LayerDecisions& decisions);
  void count_attention(int layer, const Pass& pass, std::int32_t first_position,
                       const Selection& selection, std::span<const JoinedList> joined,
                       std::span<const HeadPattern> patterns) const;
  /// Gives each pass that follows another one the attention outputs of that one.
  void follow_outputs(int layer, std::span<const Pass> passes, const ForwardBatch& batch);
  void remember_queries(int layer, const Pass& pass, std::int64_t row, const ForwardBatch& batch);
  void count_columns(int layer, const Pass& pass, AttentionStats& stats,
                     const LayerView& view) const;
  void keep(Sequence& sequence, int layer, const KeepSets& keep, std::span<const KvHeadCache> from);
  void shift_positions(Stage& stage, KvHeadCache& set);
  void count_reads(Sequence& sequence, int layer, const Selection& selection,
                   std::span<const JoinedList> joined) const;

  /// Leaves in row `row` and those behind it of the stage's far queries the queries `q` of a
  /// sequence, rotated to positions first, first + 1, ..., turned to position `distance`.
  MatrixView<float> turn_queries(Stage& stage, MatrixView<const float> q, std::int32_t first,
                                 int distance, std::int64_t row);
  /// Divides what a decode step reads into what is nearer and what is farther than the greatest
  /// distance of its policy.
  static LayerDecisions::Far divide_by_distance(std::span<const KvHeadCache> sets,
                                                const Selection& selection,
                                                std::span<const std::vector<std::int32_t>> slots,
                                                std::int32_t position, int distance);
  /// Merges what decode steps read at their greatest distance into their attention.
  void merge_far(int layer, const ForwardBatch& batch, const LayerDecisions& decisions);
  /// Attention of prefill pass `index`, whose sequence selects there, block by block.
  void attend_in_blocks(int layer, const Pass& pass, std::size_t index, const ForwardBatch& batch,
                        const LayerView& view);
  /// Attention of one such block to what it selected of `sets`.
  void attend_block(const LayerView& block, std::span<const KvHeadCache> sets,
                    const SlotLists& lists, int max_distance, std::int64_t row,
                    const ForwardBatch& batch);

  EngineCore& core_;
  KvTransfers& transfers_;
};

}  // namespace turnbench
