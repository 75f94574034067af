#include "inference/kv/kv_cache.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <numeric>

#include "common/error.h"
#include "inference/model/elements.h"

namespace turnbench {
namespace {

constexpr std::size_t kPageAlignment = 64, kLargestSlab = std::size_t{8} << 20;

void read_row(const PageLayout& layout, const std::byte* row, float* out) {
  for (int d = 0; d < layout.head_dim; ++d) {
    out[d] = load_element(row, layout.dtype, static_cast<std::size_t>(d));
  }
}

/// Writes rows without gaps between them.
void write_rows(MatrixView<const float> rows, DType dtype, std::byte* out) {
  const auto width = static_cast<std::size_t>(rows.columns);
  if (rows.stride == rows.columns) {
    store_elements({rows.data, static_cast<std::size_t>(rows.rows) * width}, dtype, out);
    return;
  }
  for (std::int64_t r = 0; r < rows.rows; ++r)
    store_elements({rows.row(r), width}, dtype,
                   out + static_cast<std::size_t>(r) * width * size_of(dtype));
}

}  // namespace

std::size_t KvPool::stride() const {
  return (layout_.bytes() + kPageAlignment - 1) / kPageAlignment * kPageAlignment;
}

const std::byte* KvPool::base() const {
  std::lock_guard lock(mutex_);
  return range_ == nullptr ? nullptr : range_->base();
}

void KvPool::allocate(KvPage& page) {
  if (range_ == nullptr && slabs_.empty()) range_ = memory_->reserve_pages(stride());
  if (range_ == nullptr) {
    page.data = cut_page();
  } else {
    if (pages_ == range_->size()) range_->grow();
    page.index = static_cast<std::uint32_t>(pages_);
    page.data = range_->page(pages_);
  }
  ++pages_;
}

/// Allocates pages from large slabs backed by huge pages, so that reading a long cache causes few
/// TLB misses.
std::byte* KvPool::cut_page() {
  const std::size_t bytes = stride();
  if (slab_left_ < bytes) {
    // Each new slab doubles the memory, so that small caches stay small.
    std::size_t held = 0;
    for (const Buffer& slab : slabs_) held += slab.size();
    const std::size_t pages = std::clamp(held, bytes, std::max(bytes, kLargestSlab)) / bytes;
    slabs_.emplace_back(pages * bytes, memory_);
    slab_left_ = slabs_.back().size();
  }
  std::byte* out = slabs_.back().data() + slabs_.back().size() - slab_left_;
  slab_left_ -= bytes;
  if (memory_->is_host()) std::memset(out, 0, bytes);  // CPU kernels read whole pages
  return out;
}

KvPool::Page KvPool::acquire() {
  std::unique_ptr<KvPage> page;
  {
    std::lock_guard lock(mutex_);
    if (limit_ > 0 && live_ + layout_.bytes() > limit_) {
      throw memory_error("keys and values need more than the limit of {} KiB", limit_ >> 10);
    }
    if (!free_.empty()) {
      page = std::move(free_.back());
      free_.pop_back();
    } else {
      page = std::make_unique<KvPage>();
      allocate(*page);
    }
    live_ += layout_.bytes();
    peak_ = std::max(peak_, live_);
  }
  if (page->positions == nullptr) {
    if (memory_->is_host()) {
      page->positions = reinterpret_cast<std::int32_t*>(page->data + layout_.position_offset());
    } else {
      page->host_positions.resize(kPageTokens);
      page->positions = page->host_positions.data();
    }
  }
  return Page(page.release(), [pool = shared_from_this()](KvPage* p) { pool->release(p); });
}

void KvPool::release(KvPage* page) {
  std::lock_guard lock(mutex_);
  free_.emplace_back(page);
  live_ -= layout_.bytes();
}

void KvPool::set_limit(std::size_t bytes) {
  std::lock_guard lock(mutex_);
  limit_ = bytes;
}

std::size_t KvPool::live_bytes() const {
  std::lock_guard lock(mutex_);
  return live_;
}

std::size_t KvPool::peak_bytes() const {
  std::lock_guard lock(mutex_);
  return peak_;
}

void KvPool::reset_peak() {
  std::lock_guard lock(mutex_);
  peak_ = live_;
}

std::size_t KvPool::held_bytes() const {
  std::lock_guard lock(mutex_);
  std::size_t out = range_ == nullptr ? 0 : range_->size() * range_->stride();
  for (const Buffer& slab : slabs_) out += slab.size();
  return out;
}

std::int32_t KvHeadCache::position(int slot) const {
  assert(slot >= 0 && slot < size_);
  return page_of(slot).positions[slot % kPageTokens];
}

const std::byte* KvHeadCache::row(KvRow row, int slot) const {
  assert(row != KvRow::kPreRopeKey || layout().pre_rope_keys);
  return page_of(slot).data + layout().offset_of(row) +
         (slot % kPageTokens) * layout().row_bytes(row);
}

std::byte* KvHeadCache::row_to_write(KvRow row, int slot) {
  assert(row != KvRow::kPreRopeKey || layout().pre_rope_keys);
  return writable_page(slot).data + layout().offset_of(row) +
         (slot % kPageTokens) * layout().row_bytes(row);
}

void KvHeadCache::read(KvRow row, int slot, float* out) const {
  assert(!layout().is_encoded());
  read_row(layout(), this->row(row, slot), out);
}

void KvHeadCache::read_host(KvRow row, int slot, float* out) const {
  if (!pool_->memory().is_host())
    throw runtime_error("reading a KV set: found it in device memory, expected host memory");
  read(row, slot, out);
}

KvPage& KvHeadCache::writable_page(int slot) {
  const auto index = static_cast<std::size_t>(slot / kPageTokens);
  if (index == pages_.size()) {
    pages_.push_back(pool_->acquire());
    page_data_.push_back(pages_.back()->data);
    page_indices_.push_back(pages_.back()->index);
  } else if (pages_[index].use_count() > 1) {  // shared with a fork: copy before the write
    KvPool::Page page = pool_->acquire();
    const Copy copy{page->data, pages_[index]->data, layout().bytes()};
    pool_->memory().copy({&copy, 1});
    page->host_positions = pages_[index]->host_positions;
    if (!page->host_positions.empty()) page->positions = page->host_positions.data();
    page_data_[index] = page->data;
    page_indices_[index] = page->index;
    pages_[index] = std::move(page);
  }
  return *pages_[index];
}

void KvHeadCache::extend(std::span<const std::int32_t> positions) {
  for (std::int32_t position : positions) {
    assert(size_ == 0 || this->position(size_ - 1) < position);
    writable_page(size_).positions[size_ % kPageTokens] = position;
    ++size_;
  }
}

void KvHeadCache::renumber_positions(int first) {
  for (int slot = first; slot < size_; ++slot)
    writable_page(slot).positions[slot % kPageTokens] = slot;
}

void KvHeadCache::append(const float* key, const float* value, const float* pre_rope_key,
                         std::int32_t position) {
  extend({&position, 1});
  const std::int64_t width = layout().head_dim;
  write(size_ - 1, {key, 1, width}, {value, 1, width}, {pre_rope_key, 1, width});
}

void KvHeadCache::write(int first, MatrixView<const float> keys, MatrixView<const float> values,
                        MatrixView<const float> pre_rope_keys) {
  const PageLayout& l = layout();
  assert(!l.is_encoded());
  const int end = first + static_cast<int>(keys.rows);
  for (int slot = first, next = first; slot < end; slot = next) {
    next = std::min(end, (slot / kPageTokens + 1) * kPageTokens);
    KvPage& page = writable_page(slot);
    const auto in_page = static_cast<std::size_t>(slot % kPageTokens);
    const auto write = [&](MatrixView<const float> rows, KvRow kind) {
      write_rows(rows.rows_at(slot - first, next - slot), l.dtype,
                 page.data + l.offset_of(kind) + in_page * l.row_bytes(kind));
    };
    write(keys, KvRow::kKey);
    if (values.data != nullptr) write(values, KvRow::kValue);
    if (pre_rope_keys.data != nullptr && l.pre_rope_keys) write(pre_rope_keys, KvRow::kPreRopeKey);
    std::memcpy(page.data + l.position_offset() + in_page * sizeof(std::int32_t),
                page.positions + in_page,
                static_cast<std::size_t>(next - slot) * sizeof(std::int32_t));
  }
}

KvHeadCache KvHeadCache::working_set(std::shared_ptr<KvPool> pool, int slots) {
  KvHeadCache out(std::move(pool));
  for (int first = 0; first < slots; first += kPageTokens) out.writable_page(first);
  out.size_ = slots;
  return out;
}

KvHeadCache KvHeadCache::same_slots(std::shared_ptr<KvPool> pool) const {
  assert(pool->memory().is_host());
  KvHeadCache out = working_set(std::move(pool), size_);
  for (std::size_t i = 0; i < pages_.size(); ++i) {
    const int used = std::min(kPageTokens, size_ - static_cast<int>(i) * kPageTokens);
    std::copy_n(pages_[i]->positions, used, out.pages_[i]->positions);
  }
  return out;
}

void KvHeadCache::set_position(int slot, std::int32_t position) {
  writable_page(slot).positions[slot % kPageTokens] = position;
}

void KvHeadCache::place(int first, const KvHeadCache& from, int from_slot, int count,
                        std::vector<Copy>& copies, KeyRows keys, std::int32_t shift) {
  const PageLayout &l = layout(), &f = from.layout();
  assert(l.encoded == f.encoded && l.pre_rope_keys <= f.pre_rope_keys);
  assert(first + count <= size_ && from_slot + count <= from.size_);
  const std::size_t key = l.row_bytes(KvRow::kKey), value = l.row_bytes(KvRow::kValue);
  const bool in_pages = from.pool_->memory().is_host();  // the positions of `from`
  while (count > 0) {
    const int to = first % kPageTokens, at = from_slot % kPageTokens;
    const int run = std::min({count, kPageTokens - to, kPageTokens - at});  // within a page of each
    KvPage& page = writable_page(first);
    // Avoids reading the KvPage object, which is not in the CPU cache.
    const std::byte* source = from.page_data_[from_slot / kPageTokens];
    const auto copy_rows = [&](std::size_t to_offset, std::size_t from_offset, std::size_t bytes) {
      const auto u = [](int i) { return static_cast<std::size_t>(i); };
      copies.push_back({page.data + to_offset + u(to) * bytes, source + from_offset + u(at) * bytes,
                        u(run) * bytes});
    };
    if (keys == KeyRows::kAll) copy_rows(0, 0, key);
    if (keys == KeyRows::kPreRopeAsKeys) copy_rows(0, f.pre_rope_key_offset(), key);
    copy_rows(l.value_offset(), f.value_offset(), value);
    if (l.pre_rope_keys && keys != KeyRows::kNone)
      copy_rows(l.pre_rope_key_offset(), f.pre_rope_key_offset(), key);
    const auto* positions =
        in_pages ? reinterpret_cast<const std::int32_t*>(source + f.position_offset())
                 : from.page_of(from_slot).positions;
    std::copy_n(positions + at, run, page.positions + to);
    for (int i = to; shift != 0 && i < to + run; ++i) page.positions[i] += shift;
    if (!pool_->memory().is_host()) {
      copy_rows(l.position_offset(), f.position_offset(), sizeof(std::int32_t));
      if (shift != 0) copies.back().from = reinterpret_cast<const std::byte*>(page.positions + to);
    }
    first += run;
    from_slot += run;
    count -= run;
  }
}

void KvHeadCache::truncate(int size) {
  assert(size >= 0 && size <= size_);
  size_ = size;
  pages_.resize(static_cast<std::size_t>((size + kPageTokens - 1) / kPageTokens));
  page_data_.resize(pages_.size());
  page_indices_.resize(pages_.size());
}

void KvHeadCache::append_slots(const KvHeadCache& from, std::span<const std::int32_t> slots,
                               std::vector<Copy>& copies, KeyRows keys, std::int32_t shift) {
  for (std::size_t i = 0; i < slots.size();) {
    const int first = size_, slot = slots[i];
    for (; i < slots.size() && slots[i] - slot == size_ - first; ++i) writable_page(size_++);
    place(first, from, slot, size_ - first, copies, keys, shift);
  }
}

KvHeadCache KvHeadCache::gathered(std::span<const std::int32_t> slots,
                                  std::shared_ptr<KvPool> pool) const {
  KvHeadCache out(std::move(pool));
  std::vector<Copy> copies;
  out.append_slots(*this, slots, copies);
  out.pool_->memory().copy(copies);
  return out;
}

void KvHeadCache::keep(std::span<const std::int32_t> slots) {
  std::size_t same = 0;  // an unchanged prefix needs no copy
  while (same < slots.size() && slots[same] == static_cast<std::int32_t>(same)) ++same;
  if (static_cast<int>(same) == size_) return;
  const KvHeadCache old = *this;
  truncate(static_cast<int>(same));
  std::vector<Copy> copies;
  append_slots(old, slots.subspan(same), copies);
  pool_->memory().copy(copies);
}

int KvHeadCache::lower_bound(std::int32_t wanted) const {
  int low = 0, high = size_;
  while (low < high) {
    const int middle = low + (high - low) / 2;
    if (position(middle) < wanted) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

std::int32_t longest_set(std::span<const KvHeadCache> sets) {
  std::int32_t out = 0;
  for (const KvHeadCache& set : sets) out = std::max(out, set.size());
  return out;
}

std::vector<std::int32_t> slots_between(std::int32_t begin, std::int32_t end) {
  std::vector<std::int32_t> out(static_cast<std::size_t>(end - begin));
  std::iota(out.begin(), out.end(), begin);
  return out;
}

}  // namespace turnbench
