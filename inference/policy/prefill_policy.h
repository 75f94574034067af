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
  /// For caches that do not persist over turns ("history": "reprefill").  True if the rows of
  /// earlier turns are the same in each later turn's prefill, so that the prefill can continue from
  /// the cached prompt of the previous turn.  If false, each turn's prompt is prefilled from its
  /// first token, because the method computes the rows of earlier turns differently.
  virtual bool reuses_cached_prompt() const { return false; }
  /// True if a turn's prefill recomputes the previous answer although its tokens are cached.
  virtual bool recomputes_answer() const { return false; }
  /// Returns one pattern per query head, or none for dense attention.  In a pattern of kind
  /// kVerticalSlash, columns and offsets ascend strictly, and are at least 0 and at most the
  /// position of the pass's last row.  A pattern of kind kBlocks has one list of ascending blocks
  /// of the BlockGrid for every `block_rows` rows.
  virtual std::vector<HeadPattern> plan(const LayerView& view) = 0;
};

}  // namespace turnbench
