#include <algorithm>
#include <limits>
#include <memory>
#include <utility>

#include "common/error.h"
#include "inference/kv/cache_rules.h"

namespace turnbench {
namespace {

/// Rule kPrevious.
class PreviousBlocks : public Residency {
 public:
  explicit PreviousBlocks(const Options& options)
      : Residency(options, options.pinned_tokens + owners_per_set(options) * slots_each(options)),
        caches_(static_cast<std::size_t>(options.sets * owners_per_set(options)),
                Cache{{}, SlotSet(device_slots())}) {
    for (std::size_t i = 0; i < caches_.size(); ++i) {
      const auto owner = static_cast<std::int32_t>(i) % owners_per_set(options);
      for (std::int32_t b = 0; b < block_capacity(); ++b) {
        caches_[i].free.add(options.pinned_tokens + owner * slots_each(options) +
                            b * options.block);
      }
    }
  }

  std::unique_ptr<Residency> clone() const override {
    return std::make_unique<PreviousBlocks>(*this);
  }

 private:
  /// A block, the first of its device slots, and the number of its rows that were copied.
  struct Resident {
    std::int32_t block = 0, slot = 0, rows = 0;
  };
  /// The device slots of one KV set, or of one list.
  struct Cache {
    std::vector<Resident> blocks;  // ascending
    SlotSet free;                  // first slots of free blocks
  };

  static int owners_per_set(const Options& o) { return o.per_list ? o.lists_per_set : 1; }
  static std::int32_t slots_each(const Options& o) { return o.cache_tokens / o.block * o.block; }

  void place(std::span<Wanted> wanted, std::span<const std::int32_t> tokens,
             const ForEach& for_each, const Placed& placed, Step& out) override {
    for (const Wanted& w : wanted) {
      if (std::ssize(w.tokens) <= block_capacity()) continue;  // blocks <= tokens
      const std::size_t blocks = blocks_of(w.tokens).size();
      if (blocks <= static_cast<std::size_t>(block_capacity())) continue;
      throw runtime_error(
          "a step reads {} blocks of {} tokens of KV set {}, the device has room for {}", blocks,
          options().block, w.set, block_capacity());
    }
    std::vector<Step> parts(wanted.size());
    for_each(wanted.size(), [&](std::size_t i) {
      Wanted& w = wanted[i];
      replace(caches_[i], blocks_of(w.tokens), parts[i]);
      find(caches_[i], w, tokens[w.set], parts[i]);
      placed(i);
    });
    for (const Step& part : parts) {
      out.hits += part.hits;
      out.misses += part.misses;
      out.evictions += part.evictions;
      for (const SlotCopy& load : part.loads) add_copy(out.loads, load);
    }
  }

  /// The blocks of tokens, both ascending.
  std::vector<std::int32_t> blocks_of(std::span<const std::int32_t> tokens) const {
    std::vector<std::int32_t> out;
    out.reserve(tokens.size());
    for (const std::int32_t token : tokens) {
      const std::int32_t block = block_of(token);
      if (out.empty() || out.back() != block) out.push_back(block);
    }
    return out;
  }

  /// Makes `selected` (ascending) the blocks of a cache: new blocks get the slots of evicted ones.
  static void replace(Cache& cache, std::span<const std::int32_t> selected, Step& out) {
    std::vector<Resident> next;
    next.reserve(selected.size());
    auto old = cache.blocks.begin();
    const auto leave_before = [&](std::int32_t block) {
      for (; old != cache.blocks.end() && old->block < block; ++old) {
        cache.free.add(old->slot);
        ++out.evictions;
      }
    };
    for (const std::int32_t block : selected) {
      leave_before(block);
      const bool stays = old != cache.blocks.end() && old->block == block;
      next.push_back(stays ? *old++ : Resident{block, -1, 0});
    }
    leave_before(std::numeric_limits<std::int32_t>::max());
    const auto absent =
        std::count_if(next.begin(), next.end(), [](const Resident& r) { return r.slot < 0; });
    const auto taken = cache.free.take_lowest(static_cast<std::size_t>(absent));
    auto free = taken.begin();
    for (Resident& r : next) {
      if (r.slot < 0) r.slot = *free++;
    }
    cache.blocks = std::move(next);
  }

  /// Finds the slots of the wanted tokens, all of whose blocks are in the cache, and loads missing
  /// rows.
  void find(Cache& cache, Wanted& w, std::int32_t available, Step& out) const {
    auto resident = cache.blocks.begin();
    std::int32_t before = resident == cache.blocks.end() ? 0 : resident->rows;
    for (const std::int32_t token : w.tokens) {
      if (resident->block != block_of(token)) before = (++resident)->rows;
      const std::int32_t row = token - begin_of(resident->block);
      ++(row < before ? out.hits : out.misses);
      if (row >= resident->rows) {
        const std::int32_t copied =
            std::exchange(resident->rows, rows_of(resident->block, available));
        add_copy(out.loads, {w.set, begin_of(resident->block) + copied, resident->slot + copied,
                             resident->rows - copied});
      }
      w.slots.push_back(resident->slot + row);
    }
  }

  std::optional<std::int32_t> adopt(int set, std::int32_t token, std::int32_t slot) override {
    Cache& cache = caches_[set];
    if (options().block != 1 || options().per_list || token < options().first) {
      return std::nullopt;
    }
    const std::int32_t block = block_of(token);
    const auto at = std::lower_bound(cache.blocks.begin(), cache.blocks.end(), block,
                                     [](const Resident& r, std::int32_t b) { return r.block < b; });
    if (at != cache.blocks.end() && at->block == block) return std::nullopt;
    const std::vector<std::int32_t> free = cache.free.take_lowest(1);
    if (free.empty()) return std::nullopt;
    cache.blocks.insert(at, {block, slot, 1});
    return free.front();
  }

  void truncate_blocks(std::span<const std::int32_t> tokens) override {
    for (std::size_t i = 0; i < caches_.size(); ++i) {
      Cache& cache = caches_[i];
      const std::int32_t left = tokens[i / static_cast<std::size_t>(owners_per_set(options()))];
      for (Resident& r : cache.blocks) r.rows = std::min(r.rows, rows_of(r.block, left));
      while (!cache.blocks.empty() && cache.blocks.back().rows == 0) {
        cache.free.add(cache.blocks.back().slot);
        cache.blocks.pop_back();
      }
    }
  }

  std::vector<Cache> caches_;  // [sets], or [lists] with per_list
};

}  // namespace

std::unique_ptr<Residency> make_previous_blocks(const Residency::Options& options) {
  return std::make_unique<PreviousBlocks>(options);
}

}  // namespace turnbench
