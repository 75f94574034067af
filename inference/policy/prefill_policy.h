#pragma once

#include <memory>
#include <vector>

#include "inference/attention/attention_pattern.h"
#include "inference/policy/layer_view.h"

namespace turnbench {

/// Decides which (query, key) pairs the prefill attention of a layer computes.
class PrefillPolicy {
 public:
  virtual ~PrefillPolicy() = default;
  virtual std::unique_ptr<PrefillPolicy> clone() const = 0;
  /// True if a later turn's prefill continues from the cached tokens of earlier turns.  If false,
  /// each turn's prompt is prefilled from its first token, because the method would compute the
  /// rows of earlier turns differently.
  virtual bool reuses_cached_prompt() const { return false; }
  /// True if a turn's prefill recomputes the previous answer although its tokens are cached.
  virtual bool recomputes_answer() const { return false; }
  /// Returns one pattern per query head, or none for dense attention.  Columns and offsets ascend
  /// strictly, from 0 to at most the position of the pass's last row.  A pattern of kind kBlocks
  /// has one list of ascending blocks of the BlockGrid for every `block_rows` rows.
  virtual std::vector<HeadPattern> plan(const LayerView& view) = 0;
};

}  // namespace turnbench
