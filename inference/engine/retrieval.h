#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "inference/engine/engine_core.h"

namespace turnbench {

/// Runs the retrievers of sequences: auxiliary models that score tokens before a step's first
/// layer.
class Retrieval {
 public:
  explicit Retrieval(EngineCore& core) : core_(core) {}

  RetrieverPass retriever_pass(const Pass& pass);
  const std::shared_ptr<KvPool>& retriever_pool(int head_dim);
  /// The retrievers that process a pass.
  static std::vector<Retriever*> retrievers_of(const Pass& pass);
  /// Adds the shared data of the passes' methods to the accounted memory.
  void count_resources(std::span<const Pass> passes);
  /// Runs the retrievers on the passes, then calls `begin_step` of their policies.
  void begin_retrievers(std::span<const Pass> passes, const ForwardBatch& batch);
  /// Passes the hidden states that enter a layer to the retrievers that read them.
  void show_hidden(int layer, std::span<const Pass> passes, const ForwardBatch& batch);
  /// Sets the retriever of a fork to its state after a shared prompt.
  static void give_retriever(const Sequence& from, Sequence& fork);
  const std::map<std::string, std::size_t>& resource_bytes() const { return resource_bytes_; }
  const std::map<int, std::shared_ptr<KvPool>>& pools() const { return retriever_pools_; }

 private:
  EngineCore& core_;
  LayerMemo resources_;                                     ///< shared data of methods
  std::map<std::string, std::size_t> resource_bytes_;       ///< by key
  std::map<int, std::shared_ptr<KvPool>> retriever_pools_;  ///< by size of a key
};

}  // namespace turnbench
