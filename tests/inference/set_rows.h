#pragma once

// Rows of KV sets in any memory.

#include <algorithm>
#include <cstddef>
#include <vector>

#include "inference/kv/kv_cache.h"

namespace turnbench::test {

inline std::byte* row_address(const KvHeadCache& set, KvRow row, int slot) {
  const PageLayout& layout = set.layout();
  return set.pages()[slot / kPageTokens]->data + layout.offset_of(row) +
         static_cast<std::size_t>(slot % kPageTokens) * layout.row_bytes(row);
}

/// One row as float32.
inline std::vector<float> row_of(const KvHeadCache& set, KvRow row, int slot) {
  const PageLayout& layout = set.layout();
  std::vector<std::byte> bytes(layout.row_bytes(row));
  const Copy copy{bytes.data(), row_address(set, row, slot), bytes.size()};
  Memory& memory = set.pool()->memory();
  memory.copy({&copy, 1});
  memory.synchronize();
  std::vector<float> out;
  for (std::size_t d = 0; d < static_cast<std::size_t>(layout.head_dim); ++d)
    out.push_back(load_element(bytes.data(), layout.dtype, d));
  return out;
}

inline void read_row(const KvHeadCache& set, KvRow row, int slot, float* out) {
  const std::vector<float> values = row_of(set, row, slot);
  std::copy(values.begin(), values.end(), out);
}

/// KvHeadCache::write of one row.  The slot's page must not be shared with a fork.
inline void write_row(const KvHeadCache& set, KvRow row, int slot, const float* values) {
  const PageLayout& layout = set.layout();
  std::vector<std::byte> bytes(layout.row_bytes(row));
  for (std::size_t d = 0; d < static_cast<std::size_t>(layout.head_dim); ++d)
    store_element(bytes.data(), layout.dtype, d, values[d]);
  const std::size_t page = static_cast<std::size_t>(slot / kPageTokens),
                    in_page = static_cast<std::size_t>(slot % kPageTokens);
  const std::int32_t position = set.position(slot);
  const Copy copies[] = {
      {row_address(set, row, slot), bytes.data(), bytes.size()},
      {set.pages()[page]->data + layout.position_offset() + in_page * sizeof(position),
       reinterpret_cast<const std::byte*>(&position), sizeof(position)}};
  set.pool()->memory().copy(copies);
  set.pool()->memory().synchronize();
}

/// KvHeadCache::write.
inline void write_rows(const KvHeadCache& set, int slot, const float* key, const float* value,
                       const float* pre_rope_key) {
  write_row(set, KvRow::kKey, slot, key);
  if (value != nullptr) write_row(set, KvRow::kValue, slot, value);
  if (pre_rope_key != nullptr && set.layout().pre_rope_keys)
    write_row(set, KvRow::kPreRopeKey, slot, pre_rope_key);
}

/// KvHeadCache::append.
inline void append_row(KvHeadCache& set, const float* key, const float* value,
                       const float* pre_rope_key, std::int32_t position) {
  set.extend({&position, 1});
  write_rows(set, set.size() - 1, key, value, pre_rope_key);
}

}  // namespace turnbench::test
