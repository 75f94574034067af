#include "inference/kv_cache.h"

#include <algorithm>
#include <cassert>
#include <cstring>

namespace turnbench {
namespace {

std::int32_t* positions_of(const PageLayout& layout, std::byte* page) {
  return reinterpret_cast<std::int32_t*>(page + layout.position_offset());
}

void read_row(const PageLayout& layout, const std::byte* row, float* out) {
  for (int d = 0; d < layout.head_dim; ++d) {
    out[d] = load_element(row, layout.dtype, static_cast<std::size_t>(d));
  }
}

void write_row(const PageLayout& layout, std::byte* row, const float* in) {
  if (layout.dtype == DType::kF32) {
    std::memcpy(row, in, layout.row_bytes());
    return;
  }
  for (int d = 0; d < layout.head_dim; ++d) {
    store_element(row, layout.dtype, static_cast<std::size_t>(d), in[d]);
  }
}

}  // namespace

KvPool::Page KvPool::acquire() {
  std::unique_ptr<AlignedBytes> memory;
  {
    std::lock_guard lock(mutex_);
    if (!free_.empty()) {
      memory = std::move(free_.back());
      free_.pop_back();
    }
    live_ += layout_.bytes();
    peak_ = std::max(peak_, live_);
  }
  if (!memory) {
    memory = std::make_unique<AlignedBytes>(layout_.bytes());
    std::memset(memory->data(), 0, memory->size());  // kernels read whole pages
  }
  std::byte* data = memory->data();
  AlignedBytes* raw = memory.release();
  return Page(data, [pool = shared_from_this(), raw](std::byte*) { pool->release(raw); });
}

void KvPool::release(AlignedBytes* memory) {
  std::lock_guard lock(mutex_);
  free_.emplace_back(memory);
  live_ -= layout_.bytes();
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

std::int32_t KvSet::position(int slot) const {
  assert(slot >= 0 && slot < size_);
  return positions_of(
      layout(), pages_[static_cast<std::size_t>(slot / kPageTokens)].get())[slot % kPageTokens];
}

void KvSet::read_key(int slot, float* out) const {
  const std::byte* page = pages_[static_cast<std::size_t>(slot / kPageTokens)].get();
  read_row(layout(), page + (slot % kPageTokens) * layout().row_bytes(), out);
}

void KvSet::read_raw_key(int slot, float* out) const {
  assert(layout().raw_keys);
  const std::byte* page = pages_[static_cast<std::size_t>(slot / kPageTokens)].get();
  read_row(layout(), page + layout().raw_key_offset() + (slot % kPageTokens) * layout().row_bytes(),
           out);
}

void KvSet::read_value(int slot, float* out) const {
  const std::byte* page = pages_[static_cast<std::size_t>(slot / kPageTokens)].get();
  read_row(layout(), page + layout().value_offset() + (slot % kPageTokens) * layout().row_bytes(),
           out);
}

std::byte* KvSet::writable_page(int slot) {
  const auto index = static_cast<std::size_t>(slot / kPageTokens);
  if (index == pages_.size()) {
    pages_.push_back(pool_->acquire());
  } else if (pages_[index].use_count() > 1) {  // shared with a fork: copy before the write
    KvPool::Page copy = pool_->acquire();
    std::memcpy(copy.get(), pages_[index].get(), layout().bytes());
    pages_[index] = std::move(copy);
  }
  return pages_[index].get();
}

void KvSet::write_key(int slot, const float* key, std::int32_t position) {
  std::byte* page = writable_page(slot);
  write_row(layout(), page + (slot % kPageTokens) * layout().row_bytes(), key);
  positions_of(layout(), page)[slot % kPageTokens] = position;
}

void KvSet::append(const float* key, const float* value, const float* raw_key,
                   std::int32_t position) {
  assert(size_ == 0 || this->position(size_ - 1) < position);
  const PageLayout& l = layout();
  std::byte* page = writable_page(size_);
  const std::size_t row = (size_ % kPageTokens) * l.row_bytes();
  write_row(l, page + row, key);
  write_row(l, page + l.value_offset() + row, value);
  if (l.raw_keys) write_row(l, page + l.raw_key_offset() + row, raw_key);
  positions_of(l, page)[size_ % kPageTokens] = position;
  ++size_;
}

void KvSet::truncate(int size) {
  assert(size >= 0 && size <= size_);
  size_ = size;
  pages_.resize(static_cast<std::size_t>((size + kPageTokens - 1) / kPageTokens));
}

void KvSet::copy_slot(const KvSet& from, int slot) {
  const PageLayout &to_layout = layout(), &from_layout = from.layout();
  std::byte* page = writable_page(size_);
  const std::byte* source = from.pages_[static_cast<std::size_t>(slot / kPageTokens)].get();
  const std::size_t bytes = to_layout.row_bytes();
  const std::size_t to = (size_ % kPageTokens) * bytes, at = (slot % kPageTokens) * bytes;
  std::memcpy(page + to, source + at, bytes);
  std::memcpy(page + to_layout.value_offset() + to, source + from_layout.value_offset() + at,
              bytes);
  if (to_layout.raw_keys) {
    std::memcpy(page + to_layout.raw_key_offset() + to, source + from_layout.raw_key_offset() + at,
                bytes);
  }
  positions_of(to_layout, page)[size_ % kPageTokens] = from.position(slot);
  ++size_;
}

KvSet KvSet::gathered(std::span<const std::int32_t> slots, std::shared_ptr<KvPool> pool) const {
  KvSet out(std::move(pool));
  assert(out.layout().dtype == layout().dtype && (!out.layout().raw_keys || layout().raw_keys));
  for (std::int32_t slot : slots) out.copy_slot(*this, slot);
  return out;
}

void KvSet::keep(std::span<const std::int32_t> slots) {
  std::size_t same = 0;  // an unchanged prefix needs no copy
  while (same < slots.size() && slots[same] == static_cast<std::int32_t>(same)) ++same;
  if (static_cast<int>(same) == size_) return;
  const KvSet old = *this;
  truncate(static_cast<int>(same));
  for (std::size_t i = same; i < slots.size(); ++i) copy_slot(old, slots[i]);
}

int KvSet::lower_bound(std::int32_t wanted) const {
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

KvCache::KvCache(int layers, int kv_heads, std::shared_ptr<KvPool> pool)
    : pool_(std::move(pool)), kv_heads_(kv_heads) {
  sets_.assign(static_cast<std::size_t>(layers),
               std::vector<KvSet>(static_cast<std::size_t>(kv_heads), KvSet(pool_)));
}

bool KvCache::raw_keys() const {
  return std::any_of(sets_.begin(), sets_.end(), [](const std::vector<KvSet>& sets) {
    return std::any_of(sets.begin(), sets.end(),
                       [](const KvSet& set) { return set.layout().raw_keys; });
  });
}

void KvCache::truncate_to_position(std::int32_t position) {
  for (auto& sets : sets_) {
    for (KvSet& set : sets) set.truncate(set.lower_bound(position));
  }
}

std::size_t KvCache::bytes() const {
  std::size_t total = 0;
  for (const auto& sets : sets_) {
    for (const KvSet& set : sets) total += set.bytes();
  }
  return total;
}

double KvCache::mean_tokens() const {
  double tokens = 0, count = 0;
  for (const auto& sets : sets_) {
    for (const KvSet& set : sets) {
      tokens += set.size();
      ++count;
    }
  }
  return count == 0 ? 0 : tokens / count;
}

std::size_t KvCache::logical_bytes() const {
  std::size_t tokens = 0;
  for (const auto& sets : sets_) {
    for (const KvSet& set : sets) tokens += static_cast<std::size_t>(set.size());
  }
  return tokens * 2 * pool_->layout().row_bytes();
}

}  // namespace turnbench
