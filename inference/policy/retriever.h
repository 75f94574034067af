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

/// A pass of one sequence, as a Retriever receives it.
struct RetrieverPass {
  const ModelConfig& config;
  DType weight_dtype, key_dtype;  ///< of the model's weights, and of cached keys
  std::span<const int> tokens;    ///< of the sequence, up to the end of the pass
  int rows = 0;                   ///< number of rows of the pass: the last entries of `tokens`
  Backend& backend;               ///< the backend of the model's first layer
  const WeightMatrix& embedding;  ///< of the model's tokens, [vocab, hidden], on this backend
  LayerMemo& resources;           ///< data that the retrievers of all sequences share
  Scratch& scratch;               ///< in the backend's memory, valid until the call returns
  /// The engine's pool of pages for keys of this size, in the backend's memory.
  std::function<std::shared_ptr<KvPool>(int head_dim)> key_pool;
};

/// An auxiliary (draft) model that scores all tokens of a sequence once per decode step, before
/// layer 0.  It processes every token, optionally with hidden states of the model (`reads_layer`),
/// and stores one key per token.  A shared prefill also runs the retrievers of the sequences that
/// continue from it.
class Retriever {
 public:
  virtual ~Retriever() = default;
  virtual std::unique_ptr<Retriever> clone() const = 0;
  /// Identifies the retriever (not a key of attention).  Retrievers with equal identifiers have the
  /// same state after the same tokens.
  virtual const std::string& key() const = 0;
  /// Whether the retriever reads the hidden states that enter a layer.
  virtual bool reads_layer(const ModelConfig&, int /*layer*/) const { return false; }
  /// Called for every pass before its first layer.
  /// @throws Error (input) if the retriever cannot continue from the tokens processed so far.
  virtual void begin_pass(const RetrieverPass& pass) = 0;
  /// Called for each layer with `reads_layer`, in order.  hidden: [rows, hidden] of the pass, in
  /// the backend's memory.
  virtual void enter_layer(const RetrieverPass&, int /*layer*/, MatrixView<const float>) {}
  /// Scores of all tokens for a decode step.  The last token is that of the step.  The step reads
  /// the tokens with the highest scores.  Returns [lists, tokens] in the pass's scratch.  lists:
  /// the number of the model's KV heads for separate scores of each head, or 1 for common scores of
  /// all heads.  Called between `begin_pass` and the first layer.
  virtual MatrixView<const float> weights(const RetrieverPass& pass, int lists) = 0;
  /// Keeps the first `tokens` tokens and removes all others.
  virtual void truncate(std::int32_t tokens) = 0;
  /// Bytes of the stored keys.
  virtual std::size_t key_bytes() const = 0;
};

/// Data of a method that all sequences share, such as the weights of an auxiliary model.
struct MethodResource {
  std::string key;  ///< equal if and only if the data are the same; empty: no data
  std::size_t bytes = 0;
};

}  // namespace turnbench
