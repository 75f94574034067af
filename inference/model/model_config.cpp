#include "inference/model/model_config.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "common/error.h"
#include "common/text.h"

namespace turnbench {
namespace {

constexpr std::int64_t kMaxSize = 1 << 22;  // far above any real width or vocabulary
constexpr std::int64_t kMaxLayers = 4096;

int size_of_key(const JsonView& config, const std::string& key) {
  return static_cast<int>(config.at(key).as_integer(1, kMaxSize));
}

RopeConfig parse_rope(const JsonView& config, std::int64_t max_positions) {
  RopeConfig rope;
  rope.theta = config.get("rope_theta", 10000.0);
  if (!(rope.theta > 1)) config.at("rope_theta").fail("a number above 1");
  const double partial = config.get("partial_rotary_factor", 1.0);
  if (partial != 1.0)
    config.at("partial_rotary_factor").fail("1 (partial rotation is not supported)");
  const char* key = config.has("rope_scaling") ? "rope_scaling" : "rope_parameters";
  if (!config.has(key)) return rope;
  const JsonView scaling = config.at(key);
  rope.theta = scaling.get("rope_theta", rope.theta);
  const std::string type_key = scaling.has("rope_type") ? "rope_type" : "type";
  const std::string type = scaling.at(type_key).as_string();
  const auto positive = [&](const char* name, double fallback) {
    const double value = scaling.get(name, fallback);
    if (!(value > 0)) scaling.at(name).fail("a number above 0");
    return value;
  };
  rope.original_max_positions =
      scaling.get_integer("original_max_position_embeddings", max_positions, 1);
  if (type == "default") return rope;
  rope.factor = scaling.at("factor").as_number();
  if (!(rope.factor > 0)) scaling.at("factor").fail("a number above 0");
  if (type == "linear") {
    rope.scaling = RopeConfig::Scaling::kLinear;
  } else if (type == "llama3") {
    rope.scaling = RopeConfig::Scaling::kLlama3;
    rope.low_freq_factor = positive("low_freq_factor", 1);
    rope.high_freq_factor = positive("high_freq_factor", 4);
    if (rope.high_freq_factor <= rope.low_freq_factor) {
      scaling.at("high_freq_factor").fail("a number above low_freq_factor");
    }
  } else if (type == "yarn") {
    rope.scaling = RopeConfig::Scaling::kYarn;
    rope.beta_fast = positive("beta_fast", 32);
    rope.beta_slow = positive("beta_slow", 1);
    if (scaling.has("mscale") || scaling.has("mscale_all_dim")) {
      scaling.fail("yarn scaling without mscale and mscale_all_dim");
    }
    rope.attention_factor =
        positive("attention_factor", rope.factor > 1 ? 0.1 * std::log(rope.factor) + 1.0 : 1.0);
  } else {
    scaling.at(type_key).fail("default, linear, llama3 or yarn");
  }
  return rope;
}

std::vector<int> parse_sliding_window(const JsonView& config, const std::string& family,
                                      int layers) {
  std::vector<int> window(static_cast<std::size_t>(layers), 0);
  if (family == "llama" || !config.has("sliding_window")) return window;
  const bool qwen = family == "qwen2" || family == "qwen3";
  if (qwen && !config.get("use_sliding_window", false)) return window;
  const int size = size_of_key(config, "sliding_window");
  const std::int64_t first = qwen ? config.get_integer("max_window_layers", layers, 0) : 0;
  for (std::int64_t l = first; l < layers; ++l) window[l] = size;
  return window;
}

}  // namespace

std::vector<int> parse_token_ids(const JsonView& config, const std::string& key) {
  std::vector<int> out;
  if (!config.has(key)) return out;
  const JsonView value = config.at(key);
  if (!value.is_array()) return {static_cast<int>(value.as_integer(0, kMaxSize))};
  for (const JsonView& item : value.items()) {
    out.push_back(static_cast<int>(item.as_integer(0, kMaxSize)));
  }
  return out;
}

std::int64_t ModelConfig::parameter_count(std::size_t stages) const {
  const bool one_table = tied_embeddings && stages == 1;
  return layers * layer_parameter_count() + hidden +
         static_cast<std::int64_t>(vocab) * hidden * (one_table ? 1 : 2);
}

std::int64_t ModelConfig::layer_parameter_count() const {
  const std::int64_t attention =
      static_cast<std::int64_t>(hidden) * head_dim * (2 * heads + 2 * kv_heads);
  const std::int64_t mlp = 3ll * hidden * ffn;
  return attention + mlp + 2ll * hidden;
}

double ModelConfig::linear_flops_per_token() const {
  return 2.0 * layers * hidden *
         (static_cast<double>(head_dim) * (2 * heads + 2 * kv_heads) + 3.0 * ffn);
}

double ModelConfig::longest_prompt() const {
  // Some files give the number of positions before scaling.
  return std::max(static_cast<double>(max_positions),
                  rope.factor * static_cast<double>(rope.original_max_positions));
}

ModelConfig parse_model_config(const JsonView& config) {
  ModelConfig m;
  m.family = config.at("model_type").as_string();
  const std::vector<std::string_view> families = {"llama", "mistral", "qwen2", "qwen3"};
  if (std::find(families.begin(), families.end(), m.family) == families.end()) {
    config.at("model_type").fail("one of: " + join(families, ", "));
  }
  if (config.get("hidden_act", std::string("silu")) != "silu") config.at("hidden_act").fail("silu");
  if (config.has("quantization_config"))
    config.at("quantization_config").fail("none: quantized weights are not supported");
  m.hidden = size_of_key(config, "hidden_size");
  m.layers = static_cast<int>(config.at("num_hidden_layers").as_integer(1, kMaxLayers));
  m.heads = size_of_key(config, "num_attention_heads");
  m.kv_heads =
      config.has("num_key_value_heads") ? size_of_key(config, "num_key_value_heads") : m.heads;
  m.ffn = size_of_key(config, "intermediate_size");
  m.vocab = size_of_key(config, "vocab_size");
  if (m.heads % m.kv_heads != 0) {
    config.at("num_key_value_heads")
        .fail(fmt::format("a divisor of num_attention_heads ({})", m.heads));
  }
  if (config.has("head_dim")) {
    m.head_dim = size_of_key(config, "head_dim");
  } else if (m.hidden % m.heads != 0) {
    config.at("num_attention_heads").fail(fmt::format("a divisor of hidden_size ({})", m.hidden));
  } else {
    m.head_dim = m.hidden / m.heads;
  }
  if (m.head_dim % 2 != 0)
    throw input_error("{}: found an odd head_dim of {}, expected an even one", config.source(),
                      m.head_dim);
  if (std::int64_t{m.heads} * m.head_dim > kMaxSize) {
    config.at("num_attention_heads")
        .fail(fmt::format("at most {}, as head_dim is {}", kMaxSize / m.head_dim, m.head_dim));
  }
  m.max_positions = config.get_integer("max_position_embeddings", 2048, 1, INT32_MAX);
  m.norm_eps = static_cast<float>(config.get("rms_norm_eps", 1e-6));
  if (!(m.norm_eps >= 0 && m.norm_eps < 1)) config.at("rms_norm_eps").fail("a number from 0 to 1");
  m.rope = parse_rope(config, m.max_positions);
  m.tied_embeddings = config.get("tie_word_embeddings", false);
  const bool attention_bias = config.get("attention_bias", false);
  m.qkv_bias = attention_bias || m.family == "qwen2";
  m.out_bias = attention_bias && m.family != "qwen2";
  m.mlp_bias = config.get("mlp_bias", false);
  m.qk_norm = m.family == "qwen3";
  m.sliding_window = parse_sliding_window(config, m.family, m.layers);
  m.eos_tokens = parse_token_ids(config, "eos_token_id");
  for (const int token : m.eos_tokens) {
    if (token >= m.vocab)
      config.at("eos_token_id").fail(fmt::format("ids below vocab_size ({})", m.vocab));
  }
  const std::vector<int> bos = parse_token_ids(config, "bos_token_id");
  m.bos_token = bos.empty() ? -1 : bos[0];
  return m;
}

}  // namespace turnbench
