#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "common/json.h"
#include "inference/rope.h"

namespace turnbench {

/// A decoder of the Llama family as data: one forward pass serves them all.
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
  std::vector<int> eos_tokens;      ///< of config.json and generation_config.json
  int bos_token = -1;

  int group() const { return heads / kv_heads; }
  /// Held by `stages` stages: a tied table stands at both ends of more than one.
  std::int64_t parameter_count(std::size_t stages = 1) const;
  std::int64_t layer_parameter_count() const;
  /// 2 FLOP per multiply-add of all linear layers but the output head, for one token.
  double linear_flops_per_token() const;
};

/// A token id or a list of them, as config.json and generation_config.json write `eos_token_id`;
/// empty if the key is not there.
std::vector<int> parse_token_ids(const JsonView& config, const std::string& key);

/// Reads config.json.  Refuses families, activations and scalings that are not supported, and sizes
/// that contradict each other.
ModelConfig parse_model_config(const JsonView& config);

}  // namespace turnbench
