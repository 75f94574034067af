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
  virtual std::unique_ptr<PrefillPolicy> clone() const = 0;  ///< independent of this one
  /// Used with "history": "reprefill" only.  True if the prefill of a later turn computes the same
  /// keys and values for the earlier prompt, so that it can continue from that prompt's cache.  If
  /// false, each turn's prompt is prefilled from its first token.
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
