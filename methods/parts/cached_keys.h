#pragma once

#include <span>
#include <vector>

#include "inference/backend/backend.h"
#include "inference/policy/policy.h"

namespace turnbench {

/// Backend::read_rows of keys for any sets, without gaps between rows: those of sets in host memory
/// that the backend cannot read are copied to the backend's memory.
void read_keys_of_any_set(Backend& backend, std::span<const ReadRowsJob> jobs);

/// A copy of the keys of slots [first, end) of a set as float32: [end - first, head_dim], in host
/// memory.  The set may be in host memory.
std::vector<float> keys_on_host(Backend& backend, const KvHeadCache& set, int first, int end);

/// A row of a set: a key or value of one cached token.
struct RowOfSet {
  const KvHeadCache* set = nullptr;
  std::int32_t slot = 0;
};
/// The given rows of a layer's sets as float32: [rows, head_dim], in host memory.  The sets may be
/// in host memory.
std::vector<float> rows_on_host(const LayerView& view, std::span<const RowOfSet> rows, KvRow row);

/// Like keys_on_host for all sets of a layer, which its backend must be able to read, concatenated
/// along columns: [end - first, sets * head_dim].
std::vector<float> layer_keys_on_host(const LayerView& view, int first, int end, KvRow row);

}  // namespace turnbench
