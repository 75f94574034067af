#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "inference/backend/backend.h"
#include "inference/policy/policy.h"

namespace turnbench {

/// Copy-on-write array of floats in a backend's memory.
class SharedFloats {
 public:
  float* data() const { return floats_ == nullptr ? nullptr : floats_->as<float>(); }
  std::int64_t size() const {
    return floats_ == nullptr ? 0 : static_cast<std::int64_t>(floats_->size() / sizeof(float));
  }
  /// Returns a private array of at least `size` floats, with the first `kept` ones preserved.
  float* own(std::int64_t size, std::int64_t kept, const std::shared_ptr<Memory>& memory);

 private:
  std::shared_ptr<Buffer> floats_;
};

/// The tokens of a layer behind a sliding window, in blocks (Xiao et al., InfLLM, 2024, section
/// 3.2).  Tokens that leave the window become sinks, then blocks.  A block has one representative
/// for each query head: the mean of the pre-RoPE keys of those of its tokens that received the most
/// attention while they were in the window.
class WindowBlocks {
 public:
  struct Settings {
    int sinks = 0, block = 1;  ///< tokens
    int representatives = 1;   ///< tokens whose keys are averaged
  };
  explicit WindowBlocks(const Settings& settings) : s_(settings) {}

  std::int32_t tokens() const { return tokens_; }  ///< processed so far
  std::int32_t sinks() const { return sinks_; }    ///< tokens
  std::int32_t blocks() const { return blocks_; }
  /// The first token outside sinks and blocks.
  std::int32_t first_loose() const { return first_of(blocks_); }
  /// The first token of a block.
  std::int32_t first_of(std::int32_t block) const { return sinks_ + block * s_.block; }
  /// The `count` blocks, or all if there are fewer, whose representatives have the largest products
  /// with the mean clamped query of the view's rows: for each query head, or one list for all heads
  /// together.
  std::vector<std::vector<std::int32_t>> best(const LayerView& view, int count,
                                              bool per_query_head) const;

  /// Sets the number of tokens.  New ones have received no attention.
  void grow(std::int32_t tokens, int heads);
  /// Adds the attention of the rows of a pass to the tokens in their windows.  lse: log-sum-exp of
  /// the rows, [rows, heads].  window: tokens.
  void add_rows(const LayerView& view, MatrixView<const float> lse, int window);
  /// Stores the row of a decode step, so that `add_remembered` can process several rows together.
  void remember_row(const LayerView& view, MatrixView<const float> lse);
  void add_remembered(const LayerView& view, int window);
  bool remembers_enough() const;
  /// Makes sinks and blocks of the tokens that have left the window.
  void take_blocks(const LayerView& view, int window);
  /// Upper bound of the bytes of an index.  read: tokens whose keys masses are computed for.
  static std::size_t bytes(const PromptSize& size, int block, std::int64_t read);

 private:
  std::int32_t loose() const { return tokens_ - first_loose(); }
  /// Removes the masses of the first `count` tokens.
  void drop(std::int64_t count, std::int64_t kept, int heads);
  void add_masses(const LayerView& view, MatrixView<const float> q, MatrixView<const float> lse,
                  std::int32_t first, int pass_rows, int window);
  void represent(const LayerView& view, std::int64_t first, std::int64_t count, float* out) const;

  Settings s_;
  std::int32_t tokens_ = 0, sinks_ = 0, blocks_ = 0;
  // Accumulated attention of the tokens outside blocks, from rows whose window contains them:
  // [query heads, tokens].
  std::vector<float> masses_;
  std::int64_t mass_tokens_ = 0, mass_room_ = 0;  // mass_room_ is their stride
  SharedFloats representatives_;                  // [blocks, query heads * head_dim]
  SharedFloats queries_, lse_;                    // of remembered rows
  int remembered_ = 0;
  std::shared_ptr<KvPool> windows_;  // pool of the keys for which masses are computed
};

}  // namespace turnbench
