#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "inference/engine/joined_lists.h"
#include "inference/engine/kv_transfers.h"
#include "inference/policy/joint_selection.h"

namespace turnbench {

/// The patterns and selections of a layer's attention, by pass.
struct LayerDecisions {
  LayerDecisions(int of_layer, std::size_t passes)
      : layer(of_layer),
        decoded(passes),
        decoded_reads(passes),
        patterns(passes),
        joint(passes),
        selections(passes),
        readable(passes),
        joined(passes),
        far(passes),
        unread_rows(passes) {
    stats.reserve(passes);  // views refer to its elements
    views.reserve(passes);
  }
  int layer;
  /// With a codec: decoded copies of the layer's sets, and of the sets that attention reads if
  /// these are others.  [passes][sets]
  std::vector<std::vector<KvHeadCache>> decoded, decoded_reads;
  std::vector<AttentionStats> stats;
  std::vector<LayerView> views;
  std::vector<std::vector<HeadPattern>> patterns;  // empty: dense
  std::vector<JointSelection*> joint;              // [passes]; null: the policy selects alone
  std::vector<Selection> selections;
  std::vector<Readable> readable;  // [passes]
  /// The merged lists of each set, [passes][sets]; only if a set has several lists and no distance
  /// is clamped.
  std::vector<std::vector<JoinedList>> joined;
  /// Clamped attention of a decode step: the tokens that it reads at the maximal distance (far),
  /// and the nearer ones.
  struct Far {
    std::int64_t row = 0;                              // row in the stage's far_* matrices
    std::vector<std::vector<std::int32_t>> near, far;  // [lists], slots of the sets to read
  };
  std::vector<Far> far;          // [passes]
  std::int64_t far_rows = 0;     // used rows of the stage's far_* matrices
  std::vector<int> unread_rows;  // [passes], as in AttentionJob
};

/// Whether a selection policy selects for the rows of this prefill pass, block by block.
bool selects_for_prompt(const Pass& pass);
/// The number of causal pairs of the last `rows` of `tokens` tokens.
double causal_pairs(double rows, double tokens);

/// The attention of one layer of a batch.
class LayerAttention {
 public:
  LayerAttention(EngineCore& core, KvTransfers& transfers) : core_(core), transfers_(transfers) {}

  /// Runs the attention of a layer for all passes, and their policies before and after it.
  void run(int layer, std::span<const Pass> passes, ForwardBatch& batch);
  /// Calls the policies of a pass after the attention of a layer.  Those with scoring passes are
  /// called by `end_prompt` later.
  void after_attention(int layer, const Pass& pass, AttentionStats& stats, const LayerView& view);
  /// The end of a prompt for one sequence that continues from its cache: evicts, builds indices,
  /// and offloads the layer.  from: the sequence that computed the prompt.
  void end_prompt(Sequence& from, Sequence& fork, bool evict, AttentionStats& stats,
                  const LayerView& view);

 private:
  LayerDecisions ask_policies(int layer, std::span<const Pass> passes, const ForwardBatch& batch);
  /// Adds the view of pass `i`.  Plans patterns for its prompt, or begins the selection of its
  /// step.
  void begin_pass(std::size_t i, const Pass& pass, const ForwardBatch& batch, SelectionJobs& jobs,
                  LayerDecisions& out);
  /// Runs the jobs of the passes [first, end), and completes their selections.
  void end_passes(std::size_t first, std::size_t end, std::span<const Pass> passes,
                  const ForwardBatch& batch, SelectionJobs jobs, LayerDecisions& out);
  /// One job per KV set of a pass, or per list of its selection if lists are not merged.
  std::vector<AttentionJob> attention_jobs(int layer, std::span<const Pass> passes,
                                           const ForwardBatch& batch,
                                           const LayerDecisions& decisions);
  /// Blends the attention outputs of decode steps as their selections require (Selection::blend).
  void blend_attention(int layer, const ForwardBatch& batch, const LayerDecisions& decisions);
  void count_attention(std::size_t index, const Pass& pass, std::int32_t first_position,
                       const LayerDecisions& decisions) const;
  /// Replaces the attention outputs of each pass with `follows` by those of the pass that it
  /// follows.
  void follow_outputs(int layer, std::span<const Pass> passes, const ForwardBatch& batch);
  void remember_queries(int layer, const Pass& pass, std::int64_t row, const ForwardBatch& batch);
  void count_columns(int layer, const Pass& pass, AttentionStats& stats,
                     const LayerView& view) const;
  void keep(Sequence& sequence, int layer, const KeepSets& keep, std::span<const KvHeadCache> from);
  void shift_positions(Stage& stage, KvHeadCache& set, const RowCodec* codec);
  void count_reads(Sequence& sequence, int layer, const Selection& selection,
                   std::span<const JoinedList> joined) const;

  /// Rotates queries to position `distance` and writes them to the stage's far queries from row
  /// `row` on.  q: queries of a sequence, rotated to positions first, first + 1, ...
  MatrixView<float> turn_queries(Stage& stage, MatrixView<const float> q, std::int32_t first,
                                 int distance, std::int64_t row);
  /// Splits the tokens that a decode step reads into those nearer than the maximal distance of its
  /// policy and the others.
  static LayerDecisions::Far divide_by_distance(std::span<const KvHeadCache> sets,
                                                const Selection& selection,
                                                std::span<const std::vector<std::int32_t>> slots,
                                                std::int32_t position, int distance);
  /// Merges the attention to tokens at the maximal distance into the attention of decode steps.
  void merge_far(int layer, const ForwardBatch& batch, const LayerDecisions& decisions);
  /// Attention of prefill pass `index` with selection, block by block.
  void attend_in_blocks(int layer, const Pass& pass, std::size_t index, const ForwardBatch& batch,
                        const LayerView& view);
  /// Attention of one such block to the selected tokens of `sets`.
  void attend_block(const LayerView& block, std::span<const KvHeadCache> sets,
                    const SlotLists& lists, int max_distance, std::int64_t row,
                    const ForwardBatch& batch);

  EngineCore& core_;
  KvTransfers& transfers_;
};

}  // namespace turnbench
