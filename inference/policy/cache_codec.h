#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "inference/kv/kv_cache.h"
#include "inference/model/matrix_view.h"

namespace turnbench {

/// Encoding of the rows of the cache: defines the stored bytes, their number, and the elements that
/// attention and policies read.  A row is a key, a value or a pre-RoPE key of one token in one KV
/// head.  A codec is a RowCodec or a GroupCodec.  Several threads call a codec at the same time.
class CacheCodec {
 public:
  virtual ~CacheCodec() = default;
  virtual std::unique_ptr<CacheCodec> clone() const = 0;
  /// Bytes of an encoded key or value of `head_dim` elements, at least 1.  A pre-RoPE key has as
  /// many bytes as a key.
  virtual std::size_t row_bytes(KvRow kind, int head_dim) const = 0;
};

/// A row is encoded once, when its token enters the cache.  From then on, all computations read the
/// decoded row, including the attention of the same prefill pass.  Evictions, forks and transfers
/// copy encoded rows.  The bytes of a row must not depend on other rows, because results must not
/// depend on the split into passes, and because any token can be evicted.
class RowCodec : public CacheCodec {
 public:
  /// row: [head_dim]; out: [row_bytes], at any alignment.
  virtual void encode(KvRow kind, std::span<const float> row, std::span<std::byte> out) const = 0;
  /// bytes: [row_bytes], at any alignment; out: [head_dim].  Kernels read these elements rounded to
  /// the KV dtype.  Any bytes must be accepted, because slots of a working set may not have been
  /// written yet.
  virtual void decode(KvRow kind, std::span<const std::byte> bytes, std::span<float> out) const = 0;
};

/// The newest rows of a set remain unencoded, in the KV dtype; older rows are encoded in groups of
/// one or more tokens.  Rows are encoded at the end of a prompt and of each decode step, so a
/// prompt reads its own rows unencoded.  An eviction decodes the rows that stay; they are then
/// encoded again.
class GroupCodec : public CacheCodec {
 public:
  /// The number of tokens whose rows are encoded together; groups begin at its multiples.  A power
  /// of two up to kPageTokens.
  virtual int group(KvRow kind) const = 0;
  /// The number of rows, from slot 0 on, that are encoded in a set of `tokens` tokens: a multiple
  /// of `group` that does not decrease with `tokens`.
  virtual int encoded_rows(KvRow kind, int tokens) const = 0;
  /// rows: [group, head_dim]; out: [group * row_bytes].
  virtual void encode(KvRow kind, MatrixView<const float> rows, std::span<std::byte> out) const = 0;
  /// bytes: [group * row_bytes]; out: [group, head_dim].  Kernels read these elements rounded to
  /// the KV dtype.
  virtual void decode(KvRow kind, std::span<const std::byte> bytes,
                      MatrixView<float> out) const = 0;
};

}  // namespace turnbench
