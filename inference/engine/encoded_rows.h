#pragma once

#include <memory>
#include <span>
#include <vector>

#include "inference/backend/backend.h"
#include "inference/engine/engine_core.h"
#include "inference/policy/cache_codec.h"

namespace turnbench {

// Reads and writes the rows of encoded KV sets, which are in host memory.

/// row: [head_dim].
void encode_row(const RowCodec& codec, KvHeadCache& set, KvRow kind, int slot, const float* row);
void decode_row(const RowCodec& codec, const KvHeadCache& set, KvRow kind, int slot, float* row);

/// Backend::append for sets of one row format.  codec: of the sets; null if they are not encoded.
void append_rows(Backend& backend, std::span<const AppendJob> jobs,
                 const RowCodec* codec = nullptr);

/// The tokens of sets that are not encoded, in encoded sets of `pool`.
std::vector<KvHeadCache> encoded_sets(const RowCodec& codec, Backend& backend,
                                      std::span<const KvHeadCache> sets,
                                      const std::shared_ptr<KvPool>& pool);

/// The sets of a layer as attention and policies read them: `sets` without a codec; otherwise
/// decoded copies in `out`, made after transfers in flight are complete.  sets: of `sequence` or on
/// the device.
std::span<const KvHeadCache> decoded_sets(EngineCore& core, Sequence& sequence, int layer,
                                          std::span<const KvHeadCache> sets,
                                          std::vector<KvHeadCache>& out);

// For a GroupCodec; without one, there is no effect:
/// Encodes the rows of a layer that the codec no longer keeps as elements.
void encode_groups(EngineCore& core, Sequence& sequence, int layer);
/// Makes all rows of a layer elements again, with their decoded values.
void decode_groups(EngineCore& core, Sequence& sequence, int layer);

}  // namespace turnbench
