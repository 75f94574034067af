#include "methods/parts/draft_checkpoint.h"

#include <algorithm>
#include <climits>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <utility>

#include "common/error.h"
#include "common/file.h"
#include "common/json.h"
#include "common/text.h"

extern "C" {
extern const std::byte turnbench_tiny_draft_config_begin[], turnbench_tiny_draft_config_end[];
extern const std::byte turnbench_tiny_draft_weights_begin[], turnbench_tiny_draft_weights_end[];
}

namespace turnbench {
namespace {

constexpr int kMostElements = 1 << 20;  // upper bound of sizes in config.json

constexpr const char *kQuery = "self_attn.q_proj", *kKey = "self_attn.k_proj";
/// Names of tensors inside and outside the layer.
const std::vector<std::string> kOfLayer = {"input_layernorm.weight",  "hidden_norm.weight",
                                           "self_attn.q_proj.weight", "self_attn.k_proj.weight",
                                           "self_attn.q_proj.bias",   "self_attn.k_proj.bias",
                                           "self_attn.q_norm.weight", "self_attn.k_norm.weight"};
const std::vector<std::string> kBeside = {"fc.weight", "embed_tokens.weight"};

/// Maps the name of a tensor to the name in this program; empty for tensors that are not read.
std::string known_name(std::string name) {
  if (name.starts_with("model.")) name.erase(0, 6);
  if (std::find(kBeside.begin(), kBeside.end(), name) != kBeside.end()) return name;
  for (const std::string prefix : {"midlayer.", "layers.0."}) {
    if (!name.starts_with(prefix)) continue;
    name.erase(0, prefix.size());
    return std::find(kOfLayer.begin(), kOfLayer.end(), name) != kOfLayer.end() ? name : "";
  }
  return "";
}

int size_at(const JsonView& config, const char* key) {
  return static_cast<int>(config.at(key).as_integer(1, kMostElements));
}

std::vector<int> feature_layers(const JsonView& config) {
  const char* key = "eagle_aux_hidden_state_layer_ids";
  const JsonView of =
      !config.has(key) && config.has("eagle_config") ? config.at("eagle_config") : config;
  std::vector<int> out;
  if (!of.has(key)) return out;
  for (const JsonView& id : of.at(key).items())
    out.push_back(static_cast<int>(id.as_integer(0, INT_MAX)));
  if (out.empty()) of.at(key).fail("layers of the model");
  return out;
}

/// The sizes in config.json; head_dim stays 0 if it is missing.
DraftShape parse_shape(const JsonView& config) {
  DraftShape s;
  s.hidden = size_at(config, "hidden_size");
  s.own_embedding = config.has("target_hidden_size");
  s.target_hidden = s.own_embedding ? size_at(config, "target_hidden_size") : s.hidden;
  s.heads = size_at(config, "num_attention_heads");
  s.kv_heads = config.has("num_key_value_heads") ? size_at(config, "num_key_value_heads") : s.heads;
  if (s.heads % s.kv_heads != 0) {
    config.at("num_key_value_heads")
        .fail(fmt::format("a divisor of num_attention_heads ({})", s.heads));
  }
  if (config.has("head_dim")) s.head_dim = size_at(config, "head_dim");
  s.norm_eps = static_cast<float>(config.get("rms_norm_eps", 1e-6));
  if (!(s.norm_eps >= 0 && s.norm_eps < 1)) config.at("rms_norm_eps").fail("a number from 0 to 1");
  // Positions are extended here; a second scaling would be applied in addition.
  if (config.has("rope_scaling")) config.at("rope_scaling").fail("none");
  const bool newer = config.has("rope_parameters");
  const JsonView rope = newer ? config.at("rope_parameters") : config;
  if (newer && rope.get("rope_type", "default") != "default") rope.at("rope_type").fail("default");
  s.rope_theta = rope.get("rope_theta", 10000.0);
  if (!(s.rope_theta > 1)) rope.at("rope_theta").fail("a number above 1");
  s.feature_layers = feature_layers(config);
  return s;
}

}  // namespace

const TensorView* DraftCheckpoint::find(const std::string& name) const {
  const auto found = names_.find(name);
  return found == names_.end() ? nullptr : &tensors_.all().at(found->second);
}

DraftCheckpoint DraftCheckpoint::open(const std::filesystem::path& directory) {
  const std::string folder = directory.string();
  if (!directory_exists(directory)) {
    throw input_error("{}: found no such directory, expected a draft model's", printable(folder));
  }
  const bool safe = path_exists(directory / "model.safetensors") ||
                    path_exists(directory / "model.safetensors.index.json");
  if (!safe && path_exists(directory / "pytorch_model.bin")) {
    throw input_error(
        "{}: found pytorch_model.bin, expected model.safetensors; convert it: python3 -c \"import "
        "torch, safetensors.torch as s; s.save_file({{k: v.contiguous() for k, v in "
        "torch.load('pytorch_model.bin', weights_only=True).items()}}, 'model.safetensors')\"",
        folder);
  }
  const std::string config_path = (directory / "config.json").string();
  return {folder, read_file(config_path), config_path,
          Safetensors::open(directory,
                            [](const std::string& name) { return !known_name(name).empty(); })};
}

DraftCheckpoint DraftCheckpoint::of_tiny() {
  const std::string name = "head=tiny (for the model tiny only)";
  const auto* config = reinterpret_cast<const char*>(turnbench_tiny_draft_config_begin);
  const auto* end = reinterpret_cast<const char*>(turnbench_tiny_draft_config_end);
  return {name, std::string(config, end), name + "/config.json",
          Safetensors::from_memory(
              {turnbench_tiny_draft_weights_begin, turnbench_tiny_draft_weights_end}, name)};
}

DraftCheckpoint::DraftCheckpoint(std::string folder, std::string config,
                                 const std::string& config_path, Safetensors tensors)
    : folder_(std::move(folder)), config_(std::move(config)), tensors_(std::move(tensors)) {
  const Json json = parse_json(config_, config_path);
  shape_ = parse_shape(JsonView(json, config_path));
  for (const auto& [name, tensor] : tensors_.all()) {
    const auto [known, is_new] = names_.emplace(known_name(name), name);
    if (!is_new) {
      throw input_error("{}: found the tensors {} and {}, expected one of them", folder_,
                        known->second, name);
    }
  }
  DraftShape& s = shape_;
  // Uses the name in the file, if there is one, in messages.
  const auto require = [&](const std::string& name, const std::vector<std::int64_t>& shape) {
    const auto found = names_.find(name);
    const bool beside = std::find(kBeside.begin(), kBeside.end(), name) != kBeside.end();
    tensors_.at(found != names_.end() ? found->second : (beside ? "" : "midlayer.") + name, shape);
  };
  const auto allow = [&](const std::string& name, const std::vector<std::int64_t>& shape) {
    if (find(name) != nullptr) require(name, shape);
  };
  if (const TensorView* q = find(std::string(kQuery) + ".weight");
      s.head_dim == 0 && q != nullptr && q->shape.size() == 2) {
    s.head_dim = static_cast<int>(std::min<std::int64_t>(q->shape[0] / s.heads, kMostElements));
  }
  if (s.head_dim % 2 != 0) {
    throw input_error("{}: found an odd head_dim of {}, expected an even one", folder_, s.head_dim);
  }
  const std::int64_t hidden = s.hidden, q = std::int64_t{s.heads} * s.head_dim,
                     k = std::int64_t{s.kv_heads} * s.head_dim;
  for (const auto& [name, rows] : {std::pair(kQuery, q), std::pair(kKey, k)}) {
    require(std::string(name) + ".weight", {rows, 2 * hidden});
    allow(std::string(name) + ".bias", {rows});
  }
  for (const char* norm : {"input_layernorm.weight", "hidden_norm.weight"}) require(norm, {hidden});
  for (const char* norm : {"self_attn.q_norm.weight", "self_attn.k_norm.weight"})
    allow(norm, {s.head_dim});
  require("fc.weight", {hidden, static_cast<std::int64_t>(s.features()) * s.target_hidden});
  if (!s.own_embedding) {
    names_.erase("embed_tokens.weight");
  } else {
    const TensorView* table = find("embed_tokens.weight");
    const bool is_table = table != nullptr && table->shape.size() == 2;
    require("embed_tokens.weight", {is_table ? table->shape[0] : 1, hidden});
  }
}

std::string DraftCheckpoint::content_hash() const {
  std::string text = config_;
  for (const auto& [name, in_file] : names_) {
    const TensorView& tensor = tensors_.all().at(in_file);
    text += name + hash_bytes(tensor.bytes);
    release(tensor);
  }
  return hash_text(text);
}

}  // namespace turnbench
