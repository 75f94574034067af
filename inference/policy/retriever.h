#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "inference/backend/backend.h"
#include "inference/kv/kv_cache.h"
#include "inference/model/dtype.h"
#include "inference/model/matrix_view.h"
#include "inference/model/memory.h"
#include "inference/model/model_config.h"
#include "inference/policy/layer_memo.h"

namespace turnbench {

/// A pass of one sequence, as a Retriever meets it.
struct RetrieverPass {
  const ModelConfig& config;
  DType weight_dtype, key_dtype;  ///< of the model's weights, and of cached keys
  std::span<const int> tokens;    ///< of the sequence, up to the end of the pass
  int rows = 0;                   ///< of the pass: the last of these tokens
  Backend& backend;               ///< that has the model's first layer
  const WeightMatrix& embedding;  ///< of the model's tokens, [vocab, hidden], there
  LayerMemo& resources;           ///< of the engine: what its sequences' retrievers share
  Scratch& scratch;               ///< of the backend's memory, until the call returns
  /// The engine's pool of pages with keys of this size, in the backend's memory.
  std::function<std::shared_ptr<KvPool>(int head_dim)> key_pool;
};

/// A small model beside the model, which weighs a sequence's tokens before a step's first layer.
/// It reads every token and, if it asks for them, hidden states of the model; of each token it
/// keeps a key.  A shared prefill takes along the retrievers of its forks.
class Retriever {
 public:
  virtual ~Retriever() = default;
  virtual std::unique_ptr<Retriever> clone() const = 0;
  /// Equal keys: the same state after the same tokens.
  virtual const std::string& key() const = 0;
  /// Whether it reads the hidden states that enter a layer.
  virtual bool reads_layer(const ModelConfig&, int /*layer*/) const { return false; }
  /// Called for every pass before its first layer.
  /// @throws Error (input) if it cannot go on from what it has seen.
  virtual void begin_pass(const RetrieverPass& pass) = 0;
  /// Called for the layers that it reads, in order.  hidden: [rows, hidden] of the pass, in the
  /// backend's memory.
  virtual void enter_layer(const RetrieverPass&, int /*layer*/, MatrixView<const float>) {}
  /// Scores of all tokens for the last token's step, of which a step reads the largest: [lists,
  /// tokens], in the pass's scratch.  lists: KV heads of the model, each with scores of its own, or
  /// 1 for all of them.
  /// Called between `begin_pass` and the first layer.
  virtual MatrixView<const float> weights(const RetrieverPass& pass, int lists) = 0;
  /// Forgets all tokens from `tokens` on.
  virtual void truncate(std::int32_t tokens) = 0;
  /// Bytes of the keys that it has.
  virtual std::size_t key_bytes() const = 0;
};

/// What a method has beside the model, once for all sequences.
struct MethodResource {
  std::string key;  ///< equal for the same; empty: nothing
  std::size_t bytes = 0;
};

}  // namespace turnbench
