#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "inference/kv/kv_cache.h"

namespace turnbench {

/// Encoding of the rows of the cache: defines the stored bytes, their number, and the elements that
/// attention and policies read.  A row is a key, a value or a pre-RoPE key of one token in one KV
/// head.
///
/// A row is encoded once, when its token enters the cache.  From then on, all computations read the
/// decoded row, including the attention of the same prefill pass.  Evictions, forks and transfers
/// copy encoded rows.  The bytes of a row must not depend on other rows, because results must not
/// depend on the split into passes, and because any token can be evicted.  Several threads call a
/// codec at the same time.
class CacheCodec {
 public:
  virtual ~CacheCodec() = default;
  virtual std::unique_ptr<CacheCodec> clone() const = 0;
  /// Bytes of an encoded row of `head_dim` elements, at least 1.
  virtual std::size_t row_bytes(int head_dim) const = 0;
  /// row: [head_dim]; out: [row_bytes], at any alignment.
  virtual void encode(KvRow kind, std::span<const float> row, std::span<std::byte> out) const = 0;
  /// bytes: [row_bytes], at any alignment; out: [head_dim].  Kernels read these elements rounded to
  /// the KV dtype.  Any bytes must be accepted, because slots of a working set may not have been
  /// written yet.
  virtual void decode(KvRow kind, std::span<const std::byte> bytes, std::span<float> out) const = 0;
};

}  // namespace turnbench
