#pragma once

// Rows as a codec of the cache stores them.

#include <cstddef>
#include <vector>

#include "inference/policy/cache_codec.h"

namespace turnbench::test {

using Bytes = std::vector<std::byte>;

inline Bytes encoded(const CacheCodec& codec, const std::vector<float>& row,
                     KvRow kind = KvRow::kKey) {
  Bytes out(codec.row_bytes(static_cast<int>(row.size())));
  codec.encode(kind, row, out);
  return out;
}

inline std::vector<float> decoded(const CacheCodec& codec, const Bytes& bytes, std::size_t head_dim,
                                  KvRow kind = KvRow::kKey) {
  std::vector<float> out(head_dim);
  codec.decode(kind, bytes, out);
  return out;
}

inline std::vector<float> read_back(const CacheCodec& codec, const std::vector<float>& row,
                                    KvRow kind = KvRow::kKey) {
  return decoded(codec, encoded(codec, row, kind), row.size(), kind);
}

}  // namespace turnbench::test
