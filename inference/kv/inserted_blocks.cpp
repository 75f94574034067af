#include <algorithm>
#include <memory>
#include <utility>

#include "common/error.h"
#include "inference/kv/cache_rules.h"
#include "inference/kv/layer_blocks.h"

namespace turnbench {
namespace {

/// Rules kLru and kLfu.
class InsertedBlocks : public LayerBlocks {
 public:
  explicit InsertedBlocks(const Options& options)
      : LayerBlocks(options, slots_before_buffer(options) + options.step_tokens) {}

  std::unique_ptr<Residency> clone() const override {
    return std::make_unique<InsertedBlocks>(*this);
  }

 private:
  /// A block and its selected tokens.
  struct Count {
    std::int32_t block = 0;
    std::int64_t tokens = 0;
  };

  static std::int32_t slots_before_buffer(const Options& options) {
    return options.pinned_tokens + options.cache_tokens / options.block * options.block;
  }

  void place(std::span<Wanted> wanted, std::span<const std::int32_t> tokens, const ForEach&,
             const Placed& placed, Step& out) override {
    const std::int32_t buffer = slots_before_buffer(options());
    std::vector<Count> counts;
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      Wanted& w = wanted[i];
      std::int32_t missed = 0;
      for (const std::int32_t token : w.tokens) {
        const std::int32_t block = block_of(token);
        if (counts.empty() || counts.back().block != block) counts.push_back({block, 0});
        ++counts.back().tokens;
        std::int32_t slot = slot_of(token, w.set);
        if (slot >= 0) {
          ++out.hits;
        } else {
          slot = buffer + missed++;
          if (missed <= options().step_tokens) add_copy(out.loads, {w.set, token, slot, 1});
        }
        w.slots.push_back(slot);
      }
      if (missed > options().step_tokens) {
        throw runtime_error(
            "a step reads {} tokens of KV set {} that are not on the device, whose step buffer has "
            "{} slots",
            missed, w.set, options().step_tokens);
      }
      out.misses += missed;
      placed(i);
    }
    insert(most_selected(std::move(counts)), out);
    for (std::int32_t e = 0; e < block_capacity(); ++e) {
      if (!entry(e).placed) continue;
      entry(e).placed = false;
      copy_grown(e, tokens, out.fills);
    }
  }

  /// The blocks to insert into the cache, in this order.
  std::vector<std::int32_t> most_selected(std::vector<Count> counts) const {
    std::sort(counts.begin(), counts.end(),
              [](const Count& a, const Count& b) { return a.block < b.block; });
    std::vector<Count> sums;
    for (const Count& c : counts) {
      if (sums.empty() || sums.back().block != c.block) sums.push_back({c.block, 0});
      sums.back().tokens += c.tokens;
    }
    std::stable_sort(sums.begin(), sums.end(),
                     [](const Count& a, const Count& b) { return a.tokens > b.tokens; });
    sums.resize(std::min(sums.size(), static_cast<std::size_t>(options().insert_blocks)));
    std::vector<std::int32_t> out;
    for (auto it = sums.rbegin(); it != sums.rend(); ++it) out.push_back(it->block);
    return out;
  }

  void insert(const std::vector<std::int32_t>& blocks, Step& out) {
    if (block_capacity() == 0) return;
    for (const std::int32_t block : blocks) {
      std::int32_t e = entry_of(block);
      if (e < 0) {
        e = replaceable();
        if (entry(e).block >= 0) {
          if (!entry(e).placed) ++out.evictions;
          remove(e);
        }
        put(block, e);
      }
      ++entry(e).uses;
      entry(e).last = ++clock_;
      entry(e).placed = true;
    }
  }

  /// A free entry, or the one to replace.
  std::int32_t replaceable() {
    const auto goes_before = [&](const Entry& a, const Entry& b) {
      if (a.block < 0 || b.block < 0) return a.block < 0 && b.block >= 0;
      if (options().rule == Rule::kLfu && a.uses != b.uses) return a.uses < b.uses;
      return a.last < b.last;
    };
    const auto found = std::min_element(entries().begin(), entries().end(), goes_before);
    return static_cast<std::int32_t>(found - entries().begin());
  }

  std::int64_t clock_ = 0;
};

}  // namespace

std::unique_ptr<Residency> make_inserted_blocks(const Residency::Options& options) {
  return std::make_unique<InsertedBlocks>(options);
}

}  // namespace turnbench
