#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "inference/engine/engine_core.h"

namespace turnbench {

/// Retrievers of sequences: auxiliary models of methods that choose tokens before a step's first
/// layer.
class Retrieval {
 public:
  explicit Retrieval(EngineCore& core) : core_(core) {}

  RetrieverPass retriever_pass(const Pass& pass);
  const std::shared_ptr<KvPool>& retriever_pool(int head_dim);
  /// Those that a pass is shown to.
  static std::vector<Retriever*> retrievers_of(const Pass& pass);
  /// Counts what their methods have beside the model from now on.
  void count_resources(std::span<const Pass> passes);
  /// Shows the passes to them, then begins the steps of their policies.
  void begin_retrievers(std::span<const Pass> passes, const ForwardBatch& batch);
  /// Shows the hidden states that enter a layer to those that read them.
  void show_hidden(int layer, std::span<const Pass> passes, const ForwardBatch& batch);
  /// Gives a fork the state of its retriever after a shared prompt.
  static void give_retriever(const Sequence& from, Sequence& fork);
  const std::map<std::string, std::size_t>& resource_bytes() const { return resource_bytes_; }
  const std::map<int, std::shared_ptr<KvPool>>& pools() const { return retriever_pools_; }

 private:
  EngineCore& core_;
  LayerMemo resources_;                                     ///< of methods, beside the model
  std::map<std::string, std::size_t> resource_bytes_;       ///< by key
  std::map<int, std::shared_ptr<KvPool>> retriever_pools_;  ///< by size of a key
};

}  // namespace turnbench
