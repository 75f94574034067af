#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "inference/dtype.h"
#include "inference/memory.h"

namespace turnbench {

constexpr int kPageTokens = 64;  ///< tokens per page, and keys per tile of every attention kernel

/// How one page stores its tokens: keys [64, D], values [64, D], optionally the keys before RoPE
/// [64, D], and int32 positions [64].
struct PageLayout {
  int head_dim = 0;
  DType dtype = DType::kF32;
  bool pre_rope_keys = false;

  constexpr std::size_t row_bytes() const {
    return static_cast<std::size_t>(head_dim) * size_of(dtype);
  }
  constexpr std::size_t value_offset() const { return kPageTokens * row_bytes(); }
  constexpr std::size_t pre_rope_key_offset() const { return 2 * kPageTokens * row_bytes(); }
  constexpr std::size_t position_offset() const {
    return (pre_rope_keys ? 3 : 2) * kPageTokens * row_bytes();
  }
  constexpr std::size_t bytes() const {
    return position_offset() + kPageTokens * sizeof(std::int32_t);
  }
};

/// A page in a backend's memory.  The host reads positions all the time: where the memory is not
/// its own, it has a copy of them.
struct KvPage {
  std::byte* data = nullptr;
  std::int32_t* positions = nullptr;
  std::vector<std::int32_t> host_positions;
};

/// Hands out pages of one layout, recycles them, and counts the bytes that live in them.
class KvPool : public std::enable_shared_from_this<KvPool> {
 public:
  using Page = std::shared_ptr<KvPage>;

  explicit KvPool(PageLayout layout, std::shared_ptr<Memory> memory = host_memory())
      : layout_(layout), memory_(std::move(memory)) {}
  const PageLayout& layout() const { return layout_; }
  Memory& memory() const { return *memory_; }
  Page acquire();
  std::size_t live_bytes() const;
  std::size_t peak_bytes() const;
  void reset_peak();

 private:
  std::byte* cut_page();
  void release(KvPage* page);

  PageLayout layout_;
  std::shared_ptr<Memory> memory_;
  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<KvPage>> free_;
  std::vector<Buffer> slabs_;  // that pages are cut from
  std::size_t slab_left_ = 0;  // bytes of the last
  std::size_t live_ = 0, peak_ = 0;
};

/// The cached tokens of one kept set: one KV head, or one query head where a method keeps a set for
/// each.  Slots are in ascending order of position.  Copies share pages until one side writes.
/// Reading and writing rows is for the host (see Memory); a backend reaches them by `pages`.
class KvHeadCache {
 public:
  explicit KvHeadCache(std::shared_ptr<KvPool> pool) : pool_(std::move(pool)) {}

  int size() const { return size_; }
  const PageLayout& layout() const { return pool_->layout(); }
  std::int32_t position(int slot) const;
  /// Row `slot` widened to float32, [head_dim].
  void read_key(int slot, float* out) const;
  void read_pre_rope_key(int slot, float* out) const;
  void read_value(int slot, float* out) const;

  /// Appends slots at ascending positions, whose rows a backend then writes.
  void extend(std::span<const std::int32_t> positions);
  /// Gives the slots from `first` on positions first, first + 1, ..., for which a backend then
  /// writes their keys.
  void renumber_positions(int first);
  /// Appends one token; `pre_rope_key` is needed if the layout has raw keys.
  void append(const float* key, const float* value, const float* pre_rope_key,
              std::int32_t position);
  /// Writes the rows of a slot; without `value`, only its key.
  void write(int slot, const float* key, const float* value, const float* pre_rope_key);
  /// Drops all slots from `size` on.
  void truncate(int size);
  /// Keeps the listed slots (ascending), drops the others.
  void keep(std::span<const std::int32_t> slots);
  /// A set in `pool` (whose layout may lack raw keys) with the listed slots of this one.
  KvHeadCache gathered(std::span<const std::int32_t> slots, std::shared_ptr<KvPool> pool) const;

  /// The first slot whose position is at least `position`.
  int lower_bound(std::int32_t position) const;
  /// True if slot i holds position i throughout, so that slots and positions are the same.
  bool is_contiguous() const {
    return size_ == 0 || (position(0) == 0 && position(size_ - 1) == size_ - 1);
  }

  std::span<const KvPool::Page> pages() const { return pages_; }
  /// Where the pages' bytes are, side by side for a backend that hands them to a device.
  std::span<const std::byte* const> page_data() const { return page_data_; }
  std::size_t bytes() const { return pages_.size() * layout().bytes(); }

 private:
  KvPage& writable_page(int slot);
  const KvPage& page_of(int slot) const {
    return *pages_[static_cast<std::size_t>(slot / kPageTokens)];
  }
  void append_slots(const KvHeadCache& from, std::span<const std::int32_t> slots);

  std::shared_ptr<KvPool> pool_;
  std::vector<KvPool::Page> pages_;
  std::vector<const std::byte*> page_data_;  ///< pages_[i]->data
  int size_ = 0;
};

/// All layers of one sequence.  Ragged: every layer may hold another number of sets, and every set
/// another number of tokens.
class KvCache {
 public:
  /// `pools`: one for each layer, all of the same layout.
  KvCache(int kv_heads, std::vector<std::shared_ptr<KvPool>> pools);
  KvCache(int layers, int kv_heads, std::shared_ptr<KvPool> pool);

  int layers() const { return static_cast<int>(sets_.size()); }
  int kv_heads() const { return kv_heads_; }
  std::vector<KvHeadCache>& layer(int l) { return sets_[static_cast<std::size_t>(l)]; }
  const std::vector<KvHeadCache>& layer(int l) const { return sets_[static_cast<std::size_t>(l)]; }
  const std::vector<std::shared_ptr<KvPool>>& pools() const { return pools_; }
  const std::shared_ptr<KvPool>& pool(int l) const { return pools_[static_cast<std::size_t>(l)]; }
  /// True if some set holds unrotated keys: its pool's layout says so, or it shares the pages of a
  /// cache whose layout does.
  bool pre_rope_keys() const;

  /// Drops every token at or after `position` (only for caches from which nothing was evicted
  /// behind it, or whose positions were kept).
  void truncate_to_position(std::int32_t position);

  std::size_t bytes() const;          ///< of all pages referred to, shared or not
  double mean_tokens() const;         ///< cached tokens per set, over layers and sets
  std::size_t logical_bytes() const;  ///< 2 * head_dim * element size * cached tokens of all sets

 private:
  std::vector<std::shared_ptr<KvPool>> pools_;
  int kv_heads_;
  std::vector<std::vector<KvHeadCache>> sets_;
};

/// 0, 1, ..., n - 1.
std::vector<std::int32_t> all_slots(int n);

}  // namespace turnbench
