#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "methods/method.h"
#include "methods/parts/per_layer.h"
#include "methods/parts/top_k_selection.h"

namespace turnbench {

/// Selects blocks of consecutive tokens by one representative vector per block.  A step reads
/// sinks, the newest tokens, which are in no complete block, and the blocks between them whose
/// vectors have the largest inner products with the step's queries, summed over the query heads of
/// a KV set.  Works in any placement.  All sequences that continue from a prompt share its vectors;
/// those of generated tokens are added as blocks are completed.  Methods derive from it and define
/// the vector of a block.
class BlockSelection : public TopKSelection {
 public:
  struct Settings {
    /// Tokens that a step reads at most: the sinks, (budget - sinks) / block - 1 complete blocks,
    /// but at least one, and the incomplete block, which counts as a whole one.
    Budget budget;
    int block = 16;  ///< tokens
    int sinks = 4;   ///< first tokens, always read
  };

  SelectionTraits traits() const override { return {.needs_whole_answers = true}; }
  DeviceNeeds demand(const PromptSize& size, const LayerView* known) const override;
  std::vector<SlotRange> pinned(int layer, int set, int tokens) const override;
  void after_prefill(const LayerView& view) override;

 protected:
  explicit BlockSelection(const Settings& s) : s_(s) {}
  BlockSelection(const BlockSelection&) = default;

  /// Computes the vector of a block.  keys: [block, head_dim], after RoPE.  out: [head_dim].
  virtual void vector_of(MatrixView<const float> keys, std::span<float> out) const = 0;
  /// Identifies the vectors among those of this class: all settings that they depend on.  Sequences
  /// that continue from a prompt share vectors with equal texts.
  virtual std::string vectors() const = 0;

  Ranking ranking(const LayerView&) const override { return {.reduction = HeadReduction::kSum}; }
  std::vector<Candidates> begin_step(const LayerView& view) override;
  void score(const LayerView& view, std::size_t set, MatrixView<float> scores,
             SelectionJobs& jobs) override;
  std::vector<std::int32_t> slots(const LayerView& view, const Candidates& list,
                                  std::span<const std::int32_t> best) const override;

 private:
  /// Vectors of consecutive blocks of a KV set, in the backend's memory: [blocks, head_dim].
  struct Vectors {
    std::shared_ptr<const Buffer> floats;
    int blocks = 0;
  };
  using LayerVectors = std::vector<Vectors>;  ///< [sets]
  struct Layer {
    std::shared_ptr<const LayerVectors> prompt;
    LayerVectors own;  ///< vectors of the blocks after the prompt's
  };

  int chosen_blocks(int prompt_tokens) const;
  /// The complete blocks of the tokens before the current one.
  int complete_blocks(int tokens) const;
  int begin_of(int block) const { return s_.sinks + block * s_.block; }
  /// `known`, extended by the vectors of blocks [first + known.blocks, end).
  Vectors extended(const LayerView& view, const KvHeadCache& set, const Vectors& known, int first,
                   int end) const;

  Settings s_;
  PerLayer<Layer> layers_;
};

}  // namespace turnbench
