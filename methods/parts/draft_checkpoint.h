#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "inference/model/safetensors.h"

namespace turnbench {

/// The sizes that determine the queries and keys of a draft model's layer.
struct DraftShape {
  int hidden = 0;         ///< of the draft model and its embeddings
  int target_hidden = 0;  ///< of the target model
  int heads = 0, kv_heads = 0, head_dim = 0;
  float norm_eps = 1e-6f;
  double rope_theta = 10000;
  bool own_embedding = false;  ///< otherwise the target model's embedding is used
  /// The layers of the target model whose inputs are the draft's features; empty: layer 2, the
  /// middle layer, and the third-last layer.
  std::vector<int> feature_layers;

  std::size_t features() const { return feature_layers.empty() ? 3 : feature_layers.size(); }
};

/// The checkpoint of an EAGLE-3 draft model (Li et al., EAGLE-3: Scaling up Inference Acceleration
/// of Large Language Models via Training-Time Test, 2025): a directory with config.json and
/// safetensors, with tensor names of the authors (midlayer.*) or of vLLM (layers.0.*), optionally
/// with the prefix "model.".  Only tensors for queries and keys are read.
class DraftCheckpoint {
 public:
  /// @throws Error (input) if files or tensors are missing or have other sizes than expected.
  static DraftCheckpoint open(const std::filesystem::path& directory);
  /// The draft of the model `tiny`, which is linked into the program.
  static DraftCheckpoint of_tiny();

  const DraftShape& shape() const { return shape_; }
  /// The directory, or a name of the embedded draft, for messages.
  const std::string& folder() const { return folder_; }
  /// A tensor by its name inside the layer ("self_attn.q_proj.weight") or outside it ("fc.weight",
  /// "embed_tokens.weight"); null if it is optional and absent.
  const TensorView* find(const std::string& name) const;
  /// Releases the resident pages of a tensor.
  void release(const TensorView& tensor) const { tensors_.release_pages(tensor.bytes); }
  /// A hash of everything that can affect the selection: config.json and the tensors above.
  std::string content_hash() const;

 private:
  DraftCheckpoint(std::string folder, std::string config, const std::string& config_path,
                  Safetensors tensors);

  std::string folder_;
  DraftShape shape_;
  std::string config_;
  Safetensors tensors_;
  std::map<std::string, std::string> names_;  // names in the file by the names above
};

}  // namespace turnbench
