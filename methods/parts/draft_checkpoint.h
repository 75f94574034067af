#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "inference/model/safetensors.h"

namespace turnbench {

/// The sizes of what a draft model's layer needs for its queries and keys.
struct DraftShape {
  int hidden = 0;         ///< of the draft, and of its embeddings
  int target_hidden = 0;  ///< of the model
  int heads = 0, kv_heads = 0, head_dim = 0;
  float norm_eps = 1e-6f;
  double rope_theta = 10000;
  bool own_embedding = false;  ///< else it is the model's
  /// The layers of the model whose input is its feature; none: 2, the middle one, the last but two.
  std::vector<int> feature_layers;

  std::size_t features() const { return feature_layers.empty() ? 3 : feature_layers.size(); }
};

/// The checkpoint of an EAGLE-3 draft model (Li et al., EAGLE-3: Scaling up Inference Acceleration
/// of Large Language Models via Training-Time Test, 2025): a directory with config.json and
/// safetensors, named as its authors' (midlayer.*) or as vLLM's (layers.0.*), with or without
/// "model." in front.  Only what queries and keys need is read.
class DraftCheckpoint {
 public:
  /// @throws Error (input) if files or tensors are missing or have other sizes than expected.
  static DraftCheckpoint open(const std::filesystem::path& directory);

  const DraftShape& shape() const { return shape_; }
  const std::string& folder() const { return folder_; }
  /// A tensor by its name in the layer ("self_attn.q_proj.weight") or beside it ("fc.weight",
  /// "embed_tokens.weight"); null if it may be absent and is.
  const TensorView* find(const std::string& name) const;
  /// Releases what was read of a tensor.
  void release(const TensorView& tensor) const { tensors_.release_pages(tensor.bytes); }
  /// A hash of all that can decide what is chosen: config.json and the tensors above.
  std::string content_hash() const;

 private:
  std::string folder_;
  DraftShape shape_;
  std::string config_;
  Safetensors tensors_;
  std::map<std::string, std::string> names_;  // in the file, by the names above
};

}  // namespace turnbench
