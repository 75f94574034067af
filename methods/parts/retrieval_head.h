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
  std::string name;  ///< name of the weights, with the hash of their source
  /// Whether the row of a token uses the feature of the previous token, which the draft model
  /// computes from hidden states of the target model.
  bool previous_features = false;
  int longest = 0;   ///< number of tokens to which positions are extended
  int original = 0;  ///< training length of the draft model in tokens

  std::string key() const;
};

/// The sizes of a head: those of its checkpoint, or those of random weights for a model.
DraftShape head_shape(const RetrievalHeadSettings& settings, const ModelConfig& config);

/// Bytes of the head's weights in a dtype.
std::size_t head_bytes(const RetrievalHeadSettings& settings, const ModelConfig& config,
                       DType weights);

/// Scores tokens by the queries and keys of a draft model's only layer: w = softmax(q . k /
/// sqrt(head_dim)) over all tokens, for each of its query heads.  The score of a list is the
/// maximum over its heads.
std::unique_ptr<Retriever> make_retrieval_head(const RetrievalHeadSettings& settings);

/// The heads [begin, end) of `heads` that belong to list `list` of `lists`.
struct HeadShare {
  std::int64_t begin = 0, end = 0;
};
/// [list * heads / lists, (list + 1) * heads / lists), or head list * heads / lists if there are
/// fewer heads than lists.
HeadShare heads_of_list(std::int64_t heads, std::int64_t lists, std::int64_t list);

}  // namespace turnbench
