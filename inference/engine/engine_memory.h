#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "inference/engine/memory_estimate.h"
#include "inference/engine/retrieval.h"

namespace turnbench {

/// Accounts for the memory of an engine and enforces its limit.
class EngineMemory {
 public:
  EngineMemory(EngineCore& core, const Retrieval& retrieval) : core_(core), retrieval_(retrieval) {}

  std::size_t kv_bytes() const;       ///< of the pages in use by all sequences, on all devices
  std::size_t host_kv_bytes() const;  ///< of the pages in host memory (offloaded)
  std::size_t peak_kv_bytes() const;
  void reset_peak();
  /// Bytes of activations and scratch currently held: what the largest pass since
  /// `release_workspace` needed.
  std::size_t workspace_bytes() const;
  /// Must be called between passes.
  void release_workspace();
  /// Refuses passes that need more than the engine's memory limit.  size: of `passes`, without the
  /// contexts.
  /// @throws Error (memory)
  void check(PassSize size, std::span<const Pass> passes, std::int64_t at_once) const;

 private:
  /// Bytes in addition to the cached tokens if layers are offloaded or a method has an index: the
  /// layer that a prefill has on the device and, for prompts that end with these passes, shared
  /// copies of tokens, working sets and indices.
  std::size_t offload_bytes(std::span<const Pass> passes) const;
  /// Bytes of a pass for sequences with a GroupCodec: the tokens that are elements, and in forks
  /// the encoded ones.
  std::size_t new_group_bytes(const Pass& pass) const;
  /// Bytes of the pages for the new tokens of the passes, and of decoded copies.
  std::size_t new_kv_bytes(const PassSize& pass, std::span<const Pass> passes) const;

  EngineCore& core_;
  const Retrieval& retrieval_;
};

}  // namespace turnbench
