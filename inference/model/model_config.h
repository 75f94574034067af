#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "common/json.h"
#include "inference/model/rope.h"

namespace turnbench {

/// The configuration of a decoder.  One forward pass serves all supported families.
struct ModelConfig {
  std::string family;  ///< llama, mistral, qwen2, qwen3
  int hidden = 0, layers = 0, heads = 0, kv_heads = 0, head_dim = 0, ffn = 0, vocab = 0;
  std::int64_t max_positions = 0;
  float norm_eps = 1e-5f;
  RopeConfig rope;
  bool tied_embeddings = false;
  bool qkv_bias = false, out_bias = false, mlp_bias = false;
  bool qk_norm = false;             ///< RMSNorm of each head's query and key before RoPE
  std::vector<int> sliding_window;  ///< per layer; 0 = full attention
  std::vector<int> eos_tokens;      ///< from config.json and generation_config.json
  int bos_token = -1;

  int group() const { return heads / kv_heads; }
  /// Number of weights with `stages` stages.  Tied embeddings count twice if there are several
  /// stages, because both the first and the last stage store them.
  std::int64_t parameter_count(std::size_t stages = 1) const;
  std::int64_t layer_parameter_count() const;
  /// Operations of all linear layers except the output head, for one token; 2 per multiply-add.
  double linear_flops_per_token() const;
  /// Maximal context length in tokens, with RoPE scaled as configured; 0 if unknown.
  double longest_prompt() const;
};

/// Reads a token id or a list of them, such as `eos_token_id` of config.json or
/// generation_config.json.  Empty if the key is missing.
std::vector<int> parse_token_ids(const JsonView& config, const std::string& key);

/// Reads config.json.
/// @throws Error (input) for families, activations and RoPE scalings that are not supported, and
/// for sizes that contradict each other.
ModelConfig parse_model_config(const JsonView& config);

}  // namespace turnbench
