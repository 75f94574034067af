#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "inference/kv/slot_copy.h"
#include "inference/kv/slot_set.h"

namespace turnbench {

/// Calls task(i) for i in [0, count), in any order and possibly on several threads; returns when
/// all calls have ended.
using ForEach =
    std::function<void(std::size_t count, const std::function<void(std::size_t)>& task)>;
/// Calls the tasks in ascending order on the calling thread.
void for_each_in_order(std::size_t count, const std::function<void(std::size_t)>& task);

/// Decides which tokens of one layer are on the device, in which slots, and which copies this
/// takes.
///
/// The rows of all tokens are in host memory, at the slots of their KV set (host slots).  Each KV
/// set has a fixed number of device slots, in this order: pinned tokens, cached blocks, and the
/// step buffer (kLru and kLfu only).  Block b consists of `block` tokens from host slot first + b *
/// block on; the last block may be partial.  This class decides and counts; the caller runs the
/// copies.  Equal calls give equal results.
///
/// A token that is evicted from the device and loaded again may get another slot.  Attention reads
/// device slots in the order of the tokens' positions, so its bits do not depend on the slots.
class Residency {
 public:
  /// Which tokens stay on the device from one step to the next, except the pinned ones.
  enum class Rule {
    /// Blocks that all KV sets of the layer share.  Tokens that are not cached are read from the
    /// step buffer.  After the step, the `insert_blocks` blocks with the most selected tokens,
    /// counted over all sets, are inserted in ascending order of this count (ties: higher block
    /// first).  kLru replaces the least recently inserted block, kLfu the least often inserted one
    /// (ties: least recently inserted).  As in PQCache (https://arxiv.org/abs/2407.12820), with LFU
    /// as in its official implementation.
    kLru,
    kLfu,
    /// Blocks that all KV sets of the layer share.  Before a step's attention, all blocks with
    /// selected tokens are loaded.  They replace the least recently selected of the other blocks
    /// (ties: lower block).  As in InfLLM (https://arxiv.org/abs/2402.04617).
    kDemandLru,
    /// Exactly the blocks that the previous step selected, per KV set or per list.  As in ClusterKV
    /// and SpeContext (blocks of one token) and ShadowKV (chunks of 8).
    kPrevious,
  };

  struct Options {
    Rule rule = Rule::kLru;
    int sets = 1;                    ///< KV sets of the layer
    int lists_per_set = 1;           ///< lists of a step that select from the same KV set
    int block = 128;                 ///< tokens per block
    std::int32_t first = 0;          ///< host slot of the first token of block 0
    std::int32_t cache_tokens = 0;   ///< device slots per set for blocks; a remainder is not used
    std::int32_t pinned_tokens = 0;  ///< device slots per set for pinned tokens
    std::int32_t step_tokens = 0;    ///< device slots per set of the step buffer: kLru, kLfu
    int insert_blocks = 32;          ///< blocks inserted into the cache after a step: kLru, kLfu
    /// kPrevious only: each list has `cache_tokens` separate device slots.  A token that several
    /// lists of a set select is then loaded and counted once per list.
    bool per_list = false;
  };

  /// The device slots that a step reads, and the copies that it requires.
  struct Step {
    std::vector<std::vector<std::int32_t>> slots;  ///< [lists][tokens]: device slots
    /// Copies that must run after the previous step's attention and before this step's attention.
    std::vector<SlotCopy> loads;
    /// Copies into the cache.  They must run after the step's attention, which may read slots that
    /// they overwrite, and before the next step's attention.
    std::vector<SlotCopy> fills;
    /// Selected tokens that were on the device before the step (hits) or were not (misses).  Pinned
    /// tokens are neither.  A token counts once for all lists that share its device slot.
    std::int64_t hits = 0, misses = 0;
    std::int64_t evictions = 0;  ///< blocks evicted from the cache
  };

  /// @throws Error (input) for options out of range.
  static std::unique_ptr<Residency> make(const Options& options);
  virtual ~Residency() = default;
  /// A copy of the state, for a copy of the device slots.
  virtual std::unique_ptr<Residency> clone() const = 0;

  const Options& options() const { return options_; }
  /// The number of device slots of each KV set.
  std::int32_t device_slots() const { return device_slots_; }

  /// Pins exactly the tokens of `ranges` (ascending, disjoint) of a KV set, such as sinks, a local
  /// window and generated tokens: they are on the device in every step.  Returns one copy per token
  /// that was not pinned before.  For new tokens, whose rows the device computes, the copy's device
  /// slot is where these rows must be written.  With kPrevious, blocks of one token and no
  /// `per_list`, a token that is no longer pinned stays cached for the next step if there is room.
  /// There always is if no step selects more than `cache_tokens` tokens, pinned ones included.
  /// @throws Error (runtime) if there are more tokens than `pinned_tokens`.
  std::vector<SlotCopy> pin(int set, std::span<const SlotRange> ranges);

  /// Advances the state by a step that reads the host slots of `lists` (ascending); list i selects
  /// from KV set i / lists_per_set.  tokens: [sets], the number of tokens of each set that are in
  /// host memory and belong to blocks; later tokens can be selected only if they are pinned.  A
  /// cached partial block has only the rows that were copied.  Once it has grown, it is copied
  /// again: with kLru and kLfu when it is inserted again, otherwise when a step selects a new row.
  /// `for_each` may run the work on several lists or sets in parallel; the result does not depend
  /// on it.
  /// @throws Error (runtime) if the selection does not fit into the device slots, or a token is not
  /// in host memory.  The state is then unchanged.
  Step step(std::span<const std::vector<std::int32_t>> lists, std::span<const std::int32_t> tokens,
            const ForEach& for_each = for_each_in_order);

  /// Removes the tokens of each set i from host slot tokens[i] on from the device, because the host
  /// no longer has them or has other tokens in these slots.
  void truncate(std::span<const std::int32_t> tokens);

 protected:
  /// The tokens that a step reads and that are not pinned, of one KV set or, with `per_list`, of
  /// one list.
  struct Wanted {
    int set = 0;
    std::optional<RankedSlots> ranks;  ///< of these tokens, if several lists read them
    std::vector<std::int32_t> tokens;  ///< ascending host slots
    std::vector<std::int32_t> slots;   ///< their device slots
  };

  Residency(const Options& options, std::int32_t device_slots)
      : options_(options), device_slots_(device_slots) {
    forget_pins();
  }
  Residency(const Residency&) = default;

  using Placed = std::function<void(std::size_t)>;
  /// Assigns device slots to all wanted tokens, and adds copies and counts to `out`.  wanted:
  /// [sets], or [lists] with `per_list`.  Calls placed(i) from any thread once the slots of
  /// wanted[i] are assigned.
  virtual void place(std::span<Wanted> wanted, std::span<const std::int32_t> tokens,
                     const ForEach& for_each, const Placed& placed, Step& out) = 0;
  /// Offers the device slot of a token that is no longer pinned to the cache.  Returns a free slot
  /// in exchange, or nullopt if the cache declines.
  virtual std::optional<std::int32_t> adopt(int /*set*/, std::int32_t /*token*/,
                                            std::int32_t /*slot*/) {
    return std::nullopt;
  }
  virtual void truncate_blocks(std::span<const std::int32_t> tokens) = 0;

  std::int32_t block_of(std::int32_t token) const {
    const std::int32_t at = token - options_.first;
    return options_.block == 1 ? at : at / options_.block;
  }
  /// The host slot of a block's first token.
  std::int32_t begin_of(std::int32_t block) const {
    return options_.first + block * options_.block;
  }
  /// The number of tokens of a block that are among the first `tokens` host slots.
  std::int32_t rows_of(std::int32_t block, std::int32_t tokens) const;
  /// The number of blocks that fit into the device slots for blocks.
  std::int32_t block_capacity() const { return options_.cache_tokens / options_.block; }

 private:
  /// A pinned token and its device slot.
  struct Pin {
    std::int32_t token = 0, slot = 0;
  };
  /// The pinned tokens of a KV set in ascending order, and its free device slots for further ones.
  struct Pins {
    std::vector<Pin> tokens;
    std::vector<std::int32_t> free;  // ascending
  };

  void forget_pins();
  /// The tokens in the lists of one set that are not pinned.  @throws Error (runtime) unless each
  /// list ascends and its tokens are in host memory.
  Wanted unpinned(std::span<const std::vector<std::int32_t>> lists, int set,
                  std::int32_t tokens) const;
  /// The device slots of all tokens of a list, pinned or not.
  std::vector<std::int32_t> device_slots_of(std::span<const std::int32_t> list,
                                            const Wanted& wanted) const;

  Options options_;
  std::int32_t device_slots_;
  std::vector<Pins> pins_;  // [sets]
};

}  // namespace turnbench
