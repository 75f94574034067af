// Applies evictions: the tokens that stay cached, and their positions.

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "common/error.h"
#include "inference/engine/encoded_rows.h"
#include "inference/engine/layer_attention.h"
#include "inference/policy/policy_checks.h"

namespace turnbench {

/// Accumulates column masses and moments of queries over chunks and, in a shared prefix, over
/// turns.
void LayerAttention::count_columns(int layer, const Pass& pass, AttentionStats& stats,
                                   const LayerView& view) const {
  std::vector<const Sequence*> forks(pass.forks.begin(), pass.forks.end());
  if (forks.empty()) forks.push_back(pass.sequence);
  for (const Sequence* fork : forks) {
    if (!fork->policies.eviction) continue;
    const int end = view.first_position + view.rows;
    const auto check = [&](const char* what, int rows, int expected) {
      if (pass.forks.empty() || rows == expected) return;
      throw runtime_error(
          "layer {}: found the {} of {} rows, expected {}: a shared prefix must know its forks "
          "from its first pass",
          layer, what, rows, expected);
    };
    if (const auto from = fork->policies.eviction->query_moments())
      check("moments", stats.query_moments(*from).rows(), std::max(0, end - *from));
    for (const ColumnRule& rule : fork->policies.eviction->columns()) {
      check("column masses", stats.column_mass(rule).rows, end);
    }
  }
}

void LayerAttention::keep(Sequence& sequence, int layer, const KeepSets& kept,
                          std::span<const KvHeadCache> from) {
  auto& sets = sequence.sets(layer);
  const PolicyCheck check{sequence.policies.method, layer, core_.shape.heads};
  check.keep(kept, from,
             sequence.policies.eviction && sequence.policies.eviction->keeps_unequal_sets());
  if (!kept.keep_all()) {
    const std::shared_ptr<KvPool>& pool = sequence.at(layer).kv.pool();
    std::vector<KvHeadCache> next;
    for (std::size_t i = 0; i < kept.slots.size(); ++i) {
      const KvHeadCache& source = from[i * from.size() / kept.slots.size()];
      if (kept.slots.size() == sets.size() &&
          sets[i].layout().pre_rope_keys == pool->layout().pre_rope_keys) {
        next.push_back(sets[i]);  // shares the unchanged prefix
        next.back().keep(kept.slots[i]);
      } else {
        next.push_back(source.gathered(kept.slots[i], pool));
      }
    }
    sets = std::move(next);
  }
  if (sequence.policies.shifts_positions()) {
    check.shifted(sets, sequence.sets(0)[0].size());
    for (KvHeadCache& set : sets)
      shift_positions(core_.stage_of(layer), set, sequence.policies.row_codec());
  }
}

void LayerAttention::shift_positions(Stage& stage, KvHeadCache& set, const RowCodec* codec) {
  int first = 0;  // from this slot on, positions differ from slots
  while (first < set.size() && set.position(first) == first) ++first;
  const std::int64_t count = set.size() - first, head_dim = core_.shape.head_dim;
  if (count == 0) return;
  float* memory = stage.rotated_keys.get(2 * count * head_dim);
  const MatrixView keys(memory, count, head_dim);
  const MatrixView cos(memory + count * head_dim, count, head_dim / 2);
  const MatrixView sin(cos.row(count), count, head_dim / 2);
  core_.compute_rope(stage, slots_between(first, set.size()), cos.data, sin.data);
  const bool is_readable = can_read(stage.backend, set) && codec == nullptr;
  std::vector<float> host;  // the keys of a set that the backend cannot read, or that are encoded
  if (is_readable) {
    const ReadRowsJob reading{&set, first, KvRow::kPreRopeKey, keys};
    stage.backend.read_rows({&reading, 1});
  } else {
    host.resize(static_cast<std::size_t>(count * head_dim));
    for (std::int64_t i = 0; i < count; ++i) {
      const int slot = first + static_cast<int>(i);
      float* key = host.data() + i * head_dim;
      if (codec != nullptr) {
        decode_row(*codec, set, KvRow::kPreRopeKey, slot, key);
      } else {
        set.read_pre_rope_key(slot, key);
      }
    }
    stage.memory->copy_floats(host.data(), keys.data, host.size());
  }
  stage.backend.apply_rope(keys, cos, sin);
  set.renumber_positions(first);
  if (is_readable) {
    const AppendJob job{&set, first, keys};
    stage.backend.append({&job, 1});
    return;
  }
  stage.memory->copy_floats(keys.data, host.data(), host.size());
  const MatrixView<const float> rows(host.data(), count, head_dim);
  if (codec == nullptr) {
    set.write(first, rows);
    return;
  }
  for (int i = 0; i < static_cast<int>(count); ++i)
    encode_row(*codec, set, KvRow::kKey, first + i, rows.row(i));
}

}  // namespace turnbench
