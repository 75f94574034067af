#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "inference/kv/slot_set.h"

namespace turnbench {

/// Host slots [begin, end) of a KV set.
struct SlotRange {
  std::int32_t begin = 0, end = 0;
};

/// A copy of the rows of `count` tokens of KV set `set` of a layer: from the host slots `host`,
/// host + 1, ... to the device slots `device`, device + 1, ...
struct SlotCopy {
  int set = 0;
  std::int32_t host = 0, device = 0, count = 0;
  bool operator==(const SlotCopy&) const = default;
};

/// The attention probability that a block got in a step.
struct BlockMass {
  std::int32_t block = 0;
  double mass = 0;
};

/// Calls task(i) for i in [0, count), in any order, perhaps on several threads; returns when all
/// have ended.
using ForEach =
    std::function<void(std::size_t count, const std::function<void(std::size_t)>& task)>;
/// One after the other.
void for_each_in_order(std::size_t count, const std::function<void(std::size_t)>& task);

/// Which tokens of one layer are on the device, where, and what has to be copied there.
///
/// The rows of all tokens are on the host, at the slots of their KV set (host slots).  Each KV set
/// has a fixed number of device slots, in this order: pinned tokens, cached blocks, and with kLru
/// and kLfu the step buffer.  Block b has the tokens first + b * block, ..., `block` of them; the
/// last one may be partial.  This class decides and counts; the copies are the caller's.  Two runs
/// with the same calls give the same results.
///
/// A token that leaves the device and comes back may get another slot.  Attention that reads device
/// slots in the order of the tokens' positions gives the same bits wherever they are.
class Residency {
 public:
  /// Which tokens stay on the device from one step to the next, except the pinned ones.
  enum class Rule {
    /// Blocks of all KV sets of the layer.  A step reads what they lack from the step buffer. After
    /// it, the `insert_blocks` blocks with the most selected tokens, counted over all sets, enter
    /// the cache in ascending order of that count (ties: higher block first).  kLru replaces the
    /// block that was least recently inserted, kLfu the least often inserted (ties: least
    /// recently).  PQCache (https://arxiv.org/abs/2407.12820), with its code's LFU.
    kLru,
    kLfu,
    /// Blocks of all KV sets of the layer.  Before a step, all blocks with selected tokens are
    /// loaded.  They replace blocks without: kDemandLru the least recently selected, kDemandMass
    /// those with the least mass (see `add_mass`); ties: lower block.  InfLLM
    /// (https://arxiv.org/abs/2402.04617), whose code calls them lru and lru-s.
    kDemandLru,
    kDemandMass,
    /// Exactly the blocks that the previous step selected, for each KV set or each list.  ClusterKV
    /// and SpeContext: blocks of one token; ShadowKV: chunks of 8.
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
    int insert_blocks = 32;          ///< blocks that enter the cache after a step: kLru, kLfu
    /// kPrevious only: each list has `cache_tokens` device slots of its own.  A token that several
    /// lists of a set select is then loaded and counted for each of them.
    bool per_list = false;
  };

  /// What a step reads, and the copies that it needs.
  struct Step {
    std::vector<std::vector<std::int32_t>> slots;  ///< [lists][tokens]: device slots
    /// Copies that must be complete before the step's attention.  The previous step's attention
    /// must be complete before them.
    std::vector<SlotCopy> loads;
    /// Copies into the cache, after the step's attention, which may read what they overwrite.  They
    /// must be complete before the next step's attention.
    std::vector<SlotCopy> fills;
    /// Selected tokens that were on the device before the step, and those that were not.  Pinned
    /// tokens are neither; a token counts once for all lists that share its device slot.
    std::int64_t hits = 0, misses = 0;
    std::int64_t evictions = 0;  ///< blocks that left the cache
  };

  /// @throws Error (input) for options out of range.
  static std::unique_ptr<Residency> make(const Options& options);
  virtual ~Residency() = default;
  /// The same state, for a copy of the device slots.
  virtual std::unique_ptr<Residency> clone() const = 0;

  const Options& options() const { return options_; }
  /// The number of device slots of each KV set.
  std::int32_t device_slots() const { return device_slots_; }

  /// Pins exactly the tokens of `ranges` (ascending, disjoint) of a KV set: sinks, a local window,
  /// generated tokens.  They are on the device at every step.  Returns a copy for each token that
  /// was not pinned before.  For new tokens, whose rows the device computes, it says where those
  /// are written.  With kPrevious, blocks of one token and no `per_list`, a token that is no longer
  /// pinned stays for the next step if there is room: always, if no step selects more than
  /// `cache_tokens` tokens with the pinned ones.
  /// @throws Error (runtime) if there are more tokens than `pinned_tokens`.
  std::vector<SlotCopy> pin(int set, std::span<const SlotRange> ranges);

  /// Takes the step that reads the host slots of `lists` (ascending); list i selects from KV set
  /// i / lists_per_set.  tokens: [sets], the tokens of each set that are on the host and belong to
  /// blocks; of those after, only pinned ones can be selected.  A cached partial block has only the
  /// rows that were copied.  When it has grown it is copied again: with kLru and kLfu when it
  /// enters the cache again, else when a step selects a new row.  Work on several lists or sets is
  /// given to `for_each`; the step is the same, whatever that does.
  /// @throws Error (runtime) if the selection does not fit the device slots, or a token is not on
  /// the host.  The state is then that before the call.
  Step step(std::span<const std::vector<std::int32_t>> lists, std::span<const std::int32_t> tokens,
            const ForEach& for_each = for_each_in_order);

  /// kDemandMass: adds the masses of a step to its blocks, after all masses have decayed to a
  /// tenth.  A step sets those of the blocks that it selects to 0.
  virtual void add_mass(std::span<const BlockMass>) {}

  /// Forgets what the device has of the tokens from tokens[i] on of each set i: the host has none
  /// or others there.
  void truncate(std::span<const std::int32_t> tokens);
  /// Forgets everything: the next step finds no token on the device.
  void clear();

 protected:
  /// The tokens of one KV set, or of one list with `per_list`, that a step reads and that are not
  /// pinned.
  struct Wanted {
    int set = 0;
    RankedSlots ranks;                 ///< of the tokens
    std::vector<std::int32_t> tokens;  ///< ascending host slots
    std::vector<std::int32_t> slots;   ///< their device slots
  };

  Residency(const Options& options, std::int32_t device_slots)
      : options_(options), device_slots_(device_slots) {
    forget_pins();
  }
  Residency(const Residency&) = default;

  using Placed = std::function<void(std::size_t)>;
  /// Finds device slots for all wanted tokens and adds copies and counts to `out`.  wanted: [sets],
  /// or [lists] with `per_list`.  Calls placed(i) when wanted[i] has its slots, from any thread.
  virtual void place(std::span<Wanted> wanted, std::span<const std::int32_t> tokens,
                     const ForEach& for_each, const Placed& placed, Step& out) = 0;
  /// Offers the device slot of a token that is no longer pinned.  Returns a free slot in exchange,
  /// or nothing.
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
  /// The tokens of a block that are among the first `tokens` host slots.
  std::int32_t rows_of(std::int32_t block, std::int32_t tokens) const;
  /// The number of blocks that fit the device slots for blocks.
  std::int32_t block_capacity() const { return options_.cache_tokens / options_.block; }

 private:
  /// A pinned token and its device slot.
  struct Pin {
    std::int32_t token = 0, slot = 0;
  };
  /// The pins of a KV set in ascending order of tokens, and its device slots for more.
  struct Pins {
    std::vector<Pin> tokens;
    std::vector<std::int32_t> free;  // ascending
  };

  void forget_pins();
  /// The tokens of lists of one set that are not pinned.  @throws Error (runtime) unless each list
  /// ascends and they are on the host.
  Wanted unpinned(std::span<const std::vector<std::int32_t>> lists, int set,
                  std::int32_t tokens) const;
  /// Of the pinned and the wanted tokens of a list.
  std::vector<std::int32_t> device_slots_of(std::span<const std::int32_t> list,
                                            const Wanted& wanted) const;

  Options options_;
  std::int32_t device_slots_;
  std::vector<Pins> pins_;  // [sets]
};

}  // namespace turnbench
