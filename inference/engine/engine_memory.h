#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "inference/engine/memory_estimate.h"
#include "inference/engine/retrieval.h"

namespace turnbench {

/// What an engine takes of memory, and what it refuses.
class EngineMemory {
 public:
  EngineMemory(EngineCore& core, const Retrieval& retrieval) : core_(core), retrieval_(retrieval) {}

  std::size_t kv_bytes() const;       ///< of the pages in use by all sequences, on all devices
  std::size_t host_kv_bytes() const;  ///< of those that are offloaded to host memory
  std::size_t peak_kv_bytes() const;
  void reset_peak();
  /// Bytes of activations and scratch held now.  They have grown to the need of the largest pass
  /// since `release_workspace`.
  std::size_t workspace_bytes() const;
  /// Between passes.
  void release_workspace();
  /// Refuses passes that need more than the engine's memory limit.
  /// @throws Error (memory)
  void check(const PassSize& pass, std::span<const Pass> passes, std::int64_t at_once) const;

 private:
  /// Bytes beside the cached tokens where keys and values move to host memory, or a method has an
  /// index: the layer that a prefill has on the device and, of prompts that end with the passes,
  /// shared copies of tokens, working sets, indices.
  std::size_t offload_bytes(std::span<const Pass> passes) const;

  EngineCore& core_;
  const Retrieval& retrieval_;
};

}  // namespace turnbench
