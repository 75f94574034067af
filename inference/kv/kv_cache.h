#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "inference/model/dtype.h"
#include "inference/model/matrix_view.h"
#include "inference/model/memory.h"

namespace turnbench {

constexpr int kPageTokens = 64;  ///< tokens per page, and keys per tile of every attention kernel

/// The keys that are copied together with values: all, only those before RoPE, none, or those
/// before RoPE in place of the keys.
enum class KeyRows { kAll, kPreRope, kNone, kPreRopeAsKeys };

/// One kind of the rows that a slot has: [head_dim] each.
enum class KvRow { kKey, kPreRopeKey, kValue };
constexpr std::size_t kKvRowKinds = 3;

/// The layout of a page of 64 tokens whose rows are elements of `dtype`: keys [64, head_dim],
/// values [64, head_dim], optionally pre-RoPE keys [64, head_dim], and int32 positions [64].
/// Offsets and sizes are in bytes.  Kernels read only such pages.
struct ElementLayout {
  int head_dim = 0;
  DType dtype = DType::kF32;
  bool pre_rope_keys = false;

  constexpr std::size_t row_bytes() const {
    return static_cast<std::size_t>(head_dim) * size_of(dtype);
  }
  constexpr std::size_t value_offset() const { return kPageTokens * row_bytes(); }
  constexpr std::size_t pre_rope_key_offset() const { return 2 * kPageTokens * row_bytes(); }
  constexpr std::size_t position_offset() const { return rows() * row_bytes(); }
  bool operator==(const ElementLayout&) const = default;

 protected:
  /// Rows of a page.
  constexpr std::size_t rows() const { return (pre_rope_keys ? 3 : 2) * kPageTokens; }
};

/// Bytes of an encoded key, also of one before RoPE, and of an encoded value; 0 if rows are
/// elements.
struct EncodedBytes {
  std::uint16_t key = 0, value = 0;
  auto operator<=>(const EncodedBytes&) const = default;
};

/// The layout of any page.  Its rows may be encoded by a codec (CacheCodec).
struct PageLayout : ElementLayout {
  /// Operations of backends cannot read encoded rows; copies of whole rows and pages need not.
  EncodedBytes encoded = {};

  constexpr bool is_encoded() const { return encoded.key > 0; }
  constexpr std::size_t row_bytes(KvRow row) const {
    if (!is_encoded()) return ElementLayout::row_bytes();
    return row == KvRow::kValue ? encoded.value : encoded.key;
  }
  /// Bytes of a key and a value, and of a key before RoPE if `rows` is 3.
  constexpr std::size_t token_bytes(std::size_t rows) const {
    return (rows - 1) * row_bytes(KvRow::kKey) + row_bytes(KvRow::kValue);
  }
  constexpr std::size_t value_offset() const { return kPageTokens * row_bytes(KvRow::kKey); }
  constexpr std::size_t pre_rope_key_offset() const { return kPageTokens * token_bytes(2); }
  constexpr std::size_t offset_of(KvRow row) const {
    return row == KvRow::kKey ? 0 : row == KvRow::kValue ? value_offset() : pre_rope_key_offset();
  }
  constexpr std::size_t position_offset() const {
    return kPageTokens * token_bytes(pre_rope_keys ? 3 : 2);
  }
  constexpr std::size_t bytes() const {
    return position_offset() + kPageTokens * sizeof(std::int32_t);
  }
  bool operator==(const PageLayout&) const = default;
};

/// A page in a backend's memory.  `positions` [64] are in host memory: the page's own if that is
/// host memory, else a copy in `host_positions`.
struct KvPage {
  std::byte* data = nullptr;
  std::uint32_t index = 0;  ///< in the pool's page range, if it has one
  std::int32_t* positions = nullptr;
  std::vector<std::int32_t> host_positions;
};

/// Allocates pages of one layout, reuses released ones, counts the bytes of those in use, and
/// refuses more than its limit.
class KvPool : public std::enable_shared_from_this<KvPool> {
 public:
  using Page = std::shared_ptr<KvPage>;

  explicit KvPool(PageLayout layout, std::shared_ptr<Memory> memory = host_memory())
      : layout_(layout), memory_(std::move(memory)) {}
  const PageLayout& layout() const { return layout_; }
  Memory& memory() const { return *memory_; }
  /// The distance of consecutive pages in bytes.
  std::size_t stride() const;
  /// Start of the range in which pages are addressed by index; null before the first page, or if
  /// pages are addressed by pointer.
  const std::byte* base() const;
  /// @throws Error (memory) above the limit.
  Page acquire();
  /// bytes: limit for the pages in use at the same time; 0: no limit.
  void set_limit(std::size_t bytes);
  std::size_t live_bytes() const;
  std::size_t peak_bytes() const;
  void reset_peak();
  std::size_t held_bytes() const;  ///< of all pages, including those that no set uses

 private:
  void allocate(KvPage& page);
  std::byte* cut_page();
  void release(KvPage* page);

  PageLayout layout_;
  std::shared_ptr<Memory> memory_;
  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<KvPage>> free_;
  std::unique_ptr<PageRange> range_;  // of all pages; if null, slabs_ are used
  std::vector<Buffer> slabs_;         // pages are parts of these
  std::size_t slab_left_ = 0;         // unused bytes of the last slab
  std::size_t pages_ = 0;             // allocated so far
  std::size_t live_ = 0, peak_ = 0, limit_ = 0;
};

/// A KV set: the cached tokens of one KV head, or of one query head if a method keeps one set per
/// query head.  Slots 0, 1, ... are in ascending order of position, except in a working set.
/// Copies share pages until one side writes (copy-on-write).  A backend uses `pages`.
class KvHeadCache {
 public:
  explicit KvHeadCache(std::shared_ptr<KvPool> pool) : pool_(std::move(pool)) {}

  /// A set of `slots` slots without tokens, which `place` fills in any order.
  static KvHeadCache working_set(std::shared_ptr<KvPool> pool, int slots);
  /// A set of `pool`, which is in host memory, with the slots and positions of this one.  Its rows
  /// must then be written.
  KvHeadCache same_slots(std::shared_ptr<KvPool> pool) const;

  int size() const { return size_; }
  const PageLayout& layout() const { return pool_->layout(); }
  const std::shared_ptr<KvPool>& pool() const { return pool_; }
  std::int32_t position(int slot) const;
  /// Reads a row of slot `slot` of a set in host memory as float32.  out: [head_dim].  The backend
  /// reads rows in device memory (Backend::rows_on_host).
  /// @throws Error (runtime) if the set is not in host memory.
  void read_key(int slot, float* out) const { read_host(KvRow::kKey, slot, out); }
  void read_pre_rope_key(int slot, float* out) const { read_host(KvRow::kPreRopeKey, slot, out); }
  void read_value(int slot, float* out) const { read_host(KvRow::kValue, slot, out); }
  /// The same without the check, for the backend that owns the memory.
  void read(KvRow row, int slot, float* out) const;
  /// The bytes of a row: [layout().row_bytes(row)].
  const std::byte* row(KvRow row, int slot) const;
  /// The same, to be written.  Several threads may call it at once for pages that no other set
  /// shares.
  std::byte* row_to_write(KvRow row, int slot);

  /// Appends slots at ascending positions.  A backend must then write their rows (AppendJob).
  void extend(std::span<const std::int32_t> positions);
  /// Sets the positions of the slots from `first` on to first, first + 1, ...  A backend must then
  /// write their keys again.
  void renumber_positions(int first);
  /// Appends one token.  key, value, pre_rope_key: [head_dim]; the last is needed only if the
  /// layout has pre-RoPE keys.
  void append(const float* key, const float* value, const float* pre_rope_key,
              std::int32_t position);
  /// Writes the rows of consecutive slots: [slots, head_dim] each, of float32.  Null: values or
  /// pre-RoPE keys are not written.  The set must be in host memory and not encoded, or the caller
  /// must be the backend that owns its memory.
  void write(int first, MatrixView<const float> keys, MatrixView<const float> values = {},
             MatrixView<const float> pre_rope_keys = {});
  /// Assigns a new token to a slot of a working set.  A backend must then write its rows
  /// (AppendJob).
  void set_position(int slot, std::int32_t position);
  /// Prefetches the position of a source slot in host memory into the CPU cache, for `place`.
  void prefetch_position(int slot) const {
    const std::byte* page = page_data_[slot / kPageTokens];
    __builtin_prefetch(page + layout().position_offset() +
                       static_cast<std::size_t>(slot % kPageTokens) * sizeof(std::int32_t));
  }
  /// Assigns to slots [first, first + count) the tokens of `from` in slots from_slot, from_slot +
  /// 1, ...  Appends the copies of their rows to `copies`; the caller must run these before the
  /// slots are read.  The layout of `from` may have pre-RoPE keys that this set lacks.  Positions
  /// are increased by `shift`.
  void place(int first, const KvHeadCache& from, int from_slot, int count,
             std::vector<Copy>& copies, KeyRows keys = KeyRows::kAll, std::int32_t shift = 0);
  /// Appends the tokens of `from` in the listed slots (ascending), like `place`.
  void append_slots(const KvHeadCache& from, std::span<const std::int32_t> slots,
                    std::vector<Copy>& copies, KeyRows keys = KeyRows::kAll,
                    std::int32_t shift = 0);
  /// Removes all slots from `size` on.
  void truncate(int size);
  /// Keeps the listed slots (ascending) and removes the others.
  void keep(std::span<const std::int32_t> slots);
  /// Copies the listed slots into a new set of `pool`, whose layout may lack pre-RoPE keys.
  KvHeadCache gathered(std::span<const std::int32_t> slots, std::shared_ptr<KvPool> pool) const;

  /// The first slot whose position is at least `position`; size() if there is none.
  int lower_bound(std::int32_t position) const;
  /// True if every slot i has position i.
  bool is_contiguous() const {
    return size_ == 0 || (position(0) == 0 && position(size_ - 1) == size_ - 1);
  }

  std::span<const KvPool::Page> pages() const { return pages_; }
  /// The addresses of the pages as one array, for kernels.
  std::span<const std::byte* const> page_data() const { return page_data_; }
  /// The indices of the pages in the pool's page range, if it has one, as one array for kernels.
  std::span<const std::uint32_t> page_indices() const { return page_indices_; }
  std::size_t bytes() const { return pages_.size() * layout().bytes(); }

 private:
  KvPage& writable_page(int slot);
  void read_host(KvRow row, int slot, float* out) const;
  const KvPage& page_of(int slot) const { return *pages_[slot / kPageTokens]; }

  std::shared_ptr<KvPool> pool_;
  std::vector<KvPool::Page> pages_;
  std::vector<const std::byte*> page_data_;  ///< pages_[i]->data
  std::vector<std::uint32_t> page_indices_;  ///< pages_[i]->index
  int size_ = 0;
};

/// The tokens of the largest of some sets.
std::int32_t longest_set(std::span<const KvHeadCache> sets);

/// The slots (or positions) begin, begin + 1, ..., end - 1; n: from 0 on.
std::vector<std::int32_t> slots_between(std::int32_t begin, std::int32_t end);
inline std::vector<std::int32_t> all_slots(int n) {
  return slots_between(0, n);
}

}  // namespace turnbench
