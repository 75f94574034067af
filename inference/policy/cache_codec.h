#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "inference/kv/kv_cache.h"

namespace turnbench {

/// Decides how the rows of the cache are stored: what is written for a token, what attention and
/// policies read back, and how many bytes that takes.  A row is a key, a value or a pre-RoPE key of
/// one token in one KV head.
///
/// A row is encoded once, when its token enters the cache, and everything reads the decoded row
/// from then on, including the rows of the same prefill pass.  Evictions, forks and transfers copy
/// encoded rows.  A row must not depend on others, so that results do not depend on the split into
/// passes, and any tokens can leave.  Several threads call a codec at once.
class CacheCodec {
 public:
  virtual ~CacheCodec() = default;
  virtual std::unique_ptr<CacheCodec> clone() const = 0;
  /// Bytes of an encoded row of `head_dim` elements, at least 1.
  virtual std::size_t row_bytes(int head_dim) const = 0;
  /// row: [head_dim]; out: [row_bytes], at any alignment.  Encoding a decoded row must give the
  /// same bytes.
  virtual void encode(KvRow kind, std::span<const float> row, std::span<std::byte> out) const = 0;
  /// bytes: [row_bytes], at any alignment; out: [head_dim].  Kernels read these elements rounded to
  /// the KV dtype.  Any bytes must be accepted: the slots of a working set may have none yet.
  virtual void decode(KvRow kind, std::span<const std::byte> bytes, std::span<float> out) const = 0;
};

}  // namespace turnbench
