#include <algorithm>
#include <memory>

#include "common/error.h"
#include "inference/kv/cache_rules.h"
#include "inference/kv/layer_blocks.h"

namespace turnbench {
namespace {

/// Rule kDemandLru.
class DemandedBlocks : public LayerBlocks {
 public:
  explicit DemandedBlocks(const Options& options)
      : LayerBlocks(options,
                    options.pinned_tokens + options.cache_tokens / options.block * options.block) {}

  std::unique_ptr<Residency> clone() const override {
    return std::make_unique<DemandedBlocks>(*this);
  }

 private:
  void place(std::span<Wanted> wanted, std::span<const std::int32_t> tokens, const ForEach&,
             const Placed& placed, Step& out) override {
    std::vector<std::int32_t> selected;  // blocks
    for (const Wanted& w : wanted) {
      for (const std::int32_t token : w.tokens) {
        const std::int32_t block = block_of(token);
        if (selected.empty() || selected.back() != block) selected.push_back(block);
        ++(slot_of(token, w.set) >= 0 ? out.hits : out.misses);
      }
    }
    std::sort(selected.begin(), selected.end());
    selected.erase(std::unique(selected.begin(), selected.end()), selected.end());
    if (std::ssize(selected) > block_capacity()) {
      throw runtime_error("a step reads {} blocks of {} tokens, the device has room for {}",
                          selected.size(), options().block, block_capacity());
    }
    ++clock_;
    std::int64_t absent = 0;
    for (const std::int32_t block : selected) {
      const std::int32_t e = entry_of(block);
      if (e < 0) {
        ++absent;
      } else {
        entry(e).last = clock_;
      }
    }
    evict(absent, out);
    std::int32_t free = 0;
    for (const std::int32_t block : selected) {
      if (entry_of(block) < 0) {
        while (entry(free).block >= 0) ++free;
        put(block, free);
        entry(free).last = clock_;
      }
    }
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      Wanted& w = wanted[i];
      for (const std::int32_t token : w.tokens) {
        if (slot_of(token, w.set) < 0) copy_grown(entry_of(block_of(token)), tokens, out.loads);
        w.slots.push_back(slot_of(token, w.set));
      }
      placed(i);
    }
  }

  /// Removes blocks that this step does not select until `count` entries are free.
  void evict(std::int64_t count, Step& out) {
    std::vector<std::int32_t> others;
    for (std::int32_t e = 0; e < block_capacity(); ++e) {
      if (entry(e).block < 0) {
        --count;
      } else if (entry(e).last != clock_) {
        others.push_back(e);
      }
    }
    if (count <= 0) return;
    std::sort(others.begin(), others.end(), [&](std::int32_t i, std::int32_t j) {
      const Entry &a = entry(i), &b = entry(j);
      return a.last != b.last ? a.last < b.last : a.block < b.block;
    });
    others.resize(static_cast<std::size_t>(count));
    for (const std::int32_t e : others) remove(e);
    out.evictions += count;
  }

  std::int64_t clock_ = 0;  // steps
};

}  // namespace

std::unique_ptr<Residency> make_demanded_blocks(const Residency::Options& options) {
  return std::make_unique<DemandedBlocks>(options);
}

}  // namespace turnbench
