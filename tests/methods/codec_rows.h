#pragma once

// Rows as a codec of the cache stores them.

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "methods/method.h"

namespace turnbench::test {

using Bytes = std::vector<std::byte>;

/// The codec of a method; null if it is no `Codec`.
template <typename Codec>
std::unique_ptr<Codec> codec_of(const std::string& spec) {
  std::unique_ptr<CacheCodec> codec = Method::parse(spec).make().codec;
  auto* of_kind = dynamic_cast<Codec*>(codec.get());
  std::unique_ptr<Codec> out(of_kind);
  if (out != nullptr) static_cast<void>(codec.release());
  return out;
}

inline Bytes encoded(const RowCodec& codec, const std::vector<float>& row,
                     KvRow kind = KvRow::kKey) {
  Bytes out(codec.row_bytes(kind, static_cast<int>(row.size())));
  codec.encode(kind, row, out);
  return out;
}

inline std::vector<float> decoded(const RowCodec& codec, const Bytes& bytes, std::size_t head_dim,
                                  KvRow kind = KvRow::kKey) {
  std::vector<float> out(head_dim);
  codec.decode(kind, bytes, out);
  return out;
}

inline std::vector<float> read_back(const RowCodec& codec, const std::vector<float>& row,
                                    KvRow kind = KvRow::kKey) {
  return decoded(codec, encoded(codec, row, kind), row.size(), kind);
}

}  // namespace turnbench::test
