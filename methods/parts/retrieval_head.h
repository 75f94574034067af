#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "inference/policy/retriever.h"
#include "methods/parts/draft_checkpoint.h"

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
/// tokens, for each of its query heads.  A list gets the greatest of the heads that are its.
std::unique_ptr<Retriever> make_retrieval_head(const RetrievalHeadSettings& settings);

/// The heads [begin, end) of `heads` that belong to list `list` of `lists`.
struct HeadShare {
  std::int64_t begin = 0, end = 0;
};
/// [list * heads / lists, (list + 1) * heads / lists), or head list * heads / lists if there are
/// fewer heads than lists.
HeadShare heads_of_list(std::int64_t heads, std::int64_t lists, std::int64_t list);

}  // namespace turnbench
