#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "inference/retriever.h"
#include "methods/draft_checkpoint.h"

namespace turnbench {

struct RetrievalHeadSettings {
  std::shared_ptr<const DraftCheckpoint> checkpoint;  ///< null: random weights
  std::string name;  ///< of the weights, with the hash of what decides them
  /// Whether a token's row has the feature of the token before it: what the draft computes from
  /// the model's hidden states.
  bool previous_features = false;
  int longest = 0;   ///< tokens that positions are extended to
  int original = 0;  ///< tokens that the draft was trained on

  std::string key() const;
};

/// The sizes of a head: those of its checkpoint, or of random weights beside a model.
DraftShape head_shape(const RetrievalHeadSettings& settings, const ModelConfig& config);

/// Bytes of its weights in a type.
std::size_t head_bytes(const RetrievalHeadSettings& settings, const ModelConfig& config,
                       DType weights);

/// The queries and keys of a draft model's only layer: w = softmax(q . k / sqrt(head_dim)) over all
/// tokens, for each of its query heads.  A KV head of the model gets the greatest of the heads that
/// are its: [t * heads / kv_heads, (t + 1) * heads / kv_heads), or head t * heads / kv_heads if
/// there are fewer.
std::unique_ptr<Retriever> make_retrieval_head(const RetrievalHeadSettings& settings);

/// The weights of the query heads, by row, as those of KV heads.
std::vector<std::vector<float>> weights_of_kv_heads(const std::vector<std::vector<float>>& heads,
                                                    int kv_heads);

}  // namespace turnbench
