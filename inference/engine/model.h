#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "inference/backend/backend.h"
#include "inference/engine/stages.h"
#include "inference/model/model_config.h"
#include "inference/model/safetensors.h"

namespace turnbench {

/// The files of a model before its weights are loaded: a Hugging Face directory, the embedded model
/// `tiny`, or random weights for a config.json.
struct Checkpoint {
  std::string name;  ///< as the user gave it
  ModelConfig config;
  std::optional<Safetensors> tensors;  ///< empty for random weights
  std::uint64_t seed = 0;              ///< of random weights
  std::filesystem::path directory;     ///< empty for tiny
  std::string config_text;             ///< of config.json, without insignificant white space
  std::string generation_config;       ///< text of generation_config.json, or empty
  /// Opens a checkpoint.  spec: a directory, `tiny`, or `random:CONFIG.json[:seed]`.
  /// @throws Error (input) if files are missing or invalid.
  static Checkpoint open(const std::string& spec);
  /// The dtype of most of the stored bytes; kF32 for random weights.
  DType stored_dtype() const;
  /// A hash of everything that determines the logits: configuration and weights.
  std::string content_hash() const;
  /// Splits the layers into `count` stages.  The first stage also has the embedding, the last the
  /// output head.
  /// @throws Error (input) if there are more stages than layers.
  Stages stages(std::size_t count) const;
};

struct LayerWeights {
  WeightVector attention_norm, ffn_norm, q_norm, k_norm;
  std::unique_ptr<WeightMatrix> qkv, attention_out, gate_up, down;
  WeightVector qkv_bias, attention_out_bias, gate_up_bias, down_bias;
};

/// A loaded decoder: its configuration, and its weights in the layout of its backends.
class Model {
 public:
  /// Loads the weights and converts them to `dtype`, for products in the arithmetic `math`, of
  /// which kBF16 requires weights of kBF16.  Other backends on the same kind of device can use
  /// them.
  /// @throws Error (memory) if they do not fit into host memory
  /// @throws Error (input) if a backend does not have this arithmetic
  Model(const Checkpoint& checkpoint, Backend& backend, DType dtype, Math math);
  /// The same with one stage in the memory of each backend.
  Model(const Checkpoint& checkpoint, std::span<Backend* const> backends, DType dtype, Math math);

  const ModelConfig& config() const { return config_; }
  const Stages& stages() const { return stages_; }
  const LayerWeights& layer(int l) const { return layers_[l]; }
  const WeightVector& final_norm() const { return final_norm_; }
  const WeightMatrix& lm_head() const { return *lm_head_; }
  /// Token embeddings, [vocab, hidden].  The same matrix as lm_head if they are tied and in the
  /// same stage.
  const WeightMatrix& embedding() const { return embedding_ ? *embedding_ : *lm_head_; }
  DType dtype() const { return dtype_; }
  Math math() const { return math_; }
  const std::vector<float>& rope_frequencies() const { return rope_frequencies_; }
  std::size_t weight_bytes() const;
  std::size_t stage_weight_bytes(std::size_t stage) const;
  /// Bytes of the weights that a decode step reads: all except a separate embedding table.
  std::size_t decode_step_weight_bytes() const {
    return weight_bytes() - (embedding_ ? embedding_->bytes() : 0);
  }

 private:
  ModelConfig config_;
  Stages stages_;
  DType dtype_;
  Math math_;
  std::vector<LayerWeights> layers_;
  WeightVector final_norm_;
  std::vector<float> rope_frequencies_;
  std::unique_ptr<WeightMatrix> lm_head_, embedding_;  // embedding_: null if lm_head_ is used
};

}  // namespace turnbench
