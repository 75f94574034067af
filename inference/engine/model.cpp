#include "inference/engine/model.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>

#include "common/error.h"
#include "common/file.h"
#include "common/random.h"
#include "common/text.h"
#include "inference/model/elements.h"
#include "inference/model/embedded_model.h"
#include "inference/model/rope.h"

namespace turnbench {
namespace {

constexpr float kRandomScale = 0.02f;  // standard deviation of random weights

/// Adds the file's end tokens: an answer ends with any end token of either file.
void read_generation_config(Checkpoint& c, std::string_view text, const std::string& source) {
  c.generation_config = text;
  const Json json = parse_json(text, source);
  std::vector<int>& eos = c.config.eos_tokens;
  for (int token : parse_token_ids(JsonView(json, source), "eos_token_id")) {
    if (std::find(eos.begin(), eos.end(), token) == eos.end()) eos.push_back(token);
  }
}

void read_config(Checkpoint& c, std::string_view text, const std::string& source) {
  const Json json = parse_json(text, source);
  c.config = parse_model_config(JsonView(json, source));
  c.config_text = json.dump();
}

Checkpoint open_tiny() {
  Checkpoint c;
  c.name = "tiny";
  read_config(c, embedded::config(), "tiny/config.json");
  read_generation_config(c, embedded::generation_config(), "tiny/generation_config.json");
  c.tensors = Safetensors::from_memory(embedded::weights(), "tiny/model.safetensors");
  return c;
}

Checkpoint open_random(const std::string& spec) {
  std::string path = spec.substr(7);
  Checkpoint c;
  const std::size_t colon = path.rfind(':');
  if (colon != std::string::npos && colon + 1 < path.size() && path.size() - colon <= 19 &&
      path.find_first_not_of("0123456789", colon + 1) == std::string::npos) {
    c.seed = std::stoull(path.substr(colon + 1));
    path.resize(colon);
  }
  c.name = spec;
  if (path.empty()) {
    throw input_error("{}: found no file name, expected random:CONFIG.json[:seed]", spec);
  }
  read_config(c, read_file(path), path);
  return c;
}

Checkpoint open_directory(const std::string& spec) {
  Checkpoint c;
  c.name = spec;
  c.directory = spec;
  if (!directory_exists(c.directory)) {
    throw input_error(
        "{}: found no such directory, expected a model directory, tiny, or "
        "random:CONFIG.json[:seed]",
        printable(spec));
  }
  const std::string config = (c.directory / "config.json").string();
  read_config(c, read_file(config), config);
  const std::filesystem::path generation = c.directory / "generation_config.json";
  if (path_exists(generation))
    read_generation_config(c, read_file(generation), generation.string());
  c.tensors = Safetensors::open(c.directory);
  return c;
}

/// Refuses weights that do not fit into the host memory of this machine, before allocating any.
void check_fits(const Checkpoint& c, DType dtype) {
  double weights = static_cast<double>(c.config.parameter_count());
  if (c.tensors) {
    weights = 0;
    for (const auto& [name, tensor] : c.tensors->all()) {
      const std::size_t elements = tensor.bytes.size() / size_of(tensor.dtype);
      weights += static_cast<double>(elements);
    }
  }
  const double need = weights * static_cast<double>(size_of(dtype)),
               have = static_cast<double>(sysconf(_SC_PHYS_PAGES)) *
                      static_cast<double>(sysconf(_SC_PAGESIZE));
  if (need > have) {
    throw memory_error(
        "{}: found weights of {:.1f} GiB, expected at most this machine's {:.1f} GiB", c.name,
        need / (1 << 30), have / (1 << 30));
  }
}

/// Refuses checkpoints with tensors that were not loaded: config.json then describes another model.
void check_all_loaded(const Checkpoint& c, const std::set<std::string>& loaded) {
  if (!c.tensors) return;
  for (const auto& [name, tensor] : c.tensors->all()) {
    const bool is_known = loaded.contains(name) ||
                          name.ends_with("rotary_emb.inv_freq") ||  // of older versions
                          (c.config.tied_embeddings && name == "lm_head.weight");
    if (is_known) continue;
    throw input_error("{}: found the tensor {}, expected only those that config.json describes",
                      printable(c.name), printable(name));
  }
}

constexpr std::size_t kBlockBytes = std::size_t{16} << 20;  // of a matrix, loaded at a time

/// The source of weights: a checkpoint, or the random generator.
class Source {
 public:
  /// loaded: receives the names of the tensors that are loaded.
  Source(const Checkpoint& c, Backend& backend, DType dtype, Math math,
         std::set<std::string>& loaded)
      : c_(c), backend_(backend), dtype_(dtype), math_(math), loaded_(loaded) {}

  /// Loads rows [first, first + rows) of `m`.  The tensor in the file is checked before the matrix
  /// of `total` rows is allocated, so that config.json alone cannot cause a large allocation.
  void load_rows(std::unique_ptr<WeightMatrix>& m, std::int64_t total, std::int64_t first,
                 const std::string& name, std::int64_t rows, std::int64_t columns) const {
    const TensorView* t = c_.tensors ? &c_.tensors->at(name, {rows, columns}) : nullptr;
    loaded_.insert(name);
    if (m == nullptr) m = backend_.make_matrix(total, columns, dtype_, math_);
    // In blocks, so that the file and its packed copy are not in memory at the same time.
    const DType type = t != nullptr ? t->dtype : dtype_;
    const std::size_t row_bytes = columns * size_of(type);
    const std::int64_t block = std::max<std::size_t>(1, kBlockBytes / row_bytes);
    std::vector<std::byte> drawn;
    for (std::int64_t r = 0; r < rows; r += block) {
      const std::int64_t count = std::min(block, rows - r);
      if (t != nullptr) {
        const auto part = t->bytes.subspan(r * row_bytes, count * row_bytes);
        check_finite(name, part.data(), type, count * columns);
        m->set_rows(first + r, part.data(), type, count);
        c_.tensors->release_pages(part);
      } else {
        drawn.resize(count * row_bytes);
        draw_rows(name, r, count, columns, drawn.data());
        m->set_rows(first + r, drawn.data(), type, count);
      }
    }
  }

  /// A vector of weights in the backend's memory.
  WeightVector weight_vector(const std::string& name, std::int64_t size, float synthetic) const {
    return weight_vector(vector(name, size, synthetic));
  }
  WeightVector weight_vector(const std::vector<float>& values) const {
    return WeightVector(values, backend_.memory());
  }

  std::vector<float> vector(const std::string& name, std::int64_t size, float synthetic) const {
    std::vector<float> out(static_cast<std::size_t>(size), synthetic);
    if (c_.tensors) {
      const TensorView& t = c_.tensors->at(name, {size});
      loaded_.insert(name);
      check_finite(name, t.bytes.data(), t.dtype, out.size());
      read(t, 0, out.size(), out.data());
    } else if (synthetic == 0) {
      Random random = stream(name);
      for (float& x : out) x = draw(random);
    }
    return out;
  }

 private:
  /// Attention can hide values that are not finite from the logits.
  void check_finite(const std::string& name, const std::byte* data, DType type,
                    std::size_t count) const {
    if (all_finite(data, type, count)) return;
    throw input_error("{}: {}: found an infinity or a NaN, expected finite weights",
                      printable(c_.name), name);
  }
  /// Draws rows [first, first + count) of a random matrix in the model's dtype.
  void draw_rows(const std::string& name, std::int64_t first, std::int64_t count,
                 std::int64_t columns, std::byte* out) const {
    backend_.parallel_for(count, [&](std::size_t r) {
      Random random = stream(name);
      random.skip((first + r) * columns);
      for (std::int64_t i = 0; i < columns; ++i)
        store_element(out, dtype_, r * columns + i, draw(random));
    });
  }
  Random stream(const std::string& name) const { return Random::from({c_.seed, seed_of(name)}); }
  static float draw(Random& random) {
    return static_cast<float>((random.uniform() - 0.5) * std::sqrt(12.0)) * kRandomScale;
  }
  static void read(const TensorView& t, std::size_t first, std::size_t count, float* out) {
    const std::size_t size = size_of(t.dtype);
    for (std::size_t i = 0; i < count; ++i) {
      alignas(4) std::byte element[4];
      std::memcpy(element, t.bytes.data() + (first + i) * size, size);
      out[i] = load_element(element, t.dtype, 0);
    }
  }

  const Checkpoint& c_;
  Backend& backend_;
  DType dtype_;
  Math math_;
  std::set<std::string>& loaded_;
};

}  // namespace

Checkpoint Checkpoint::open(const std::string& spec) {
  if (spec == "tiny") return open_tiny();
  if (spec.starts_with("random:")) return open_random(spec);
  return open_directory(spec);
}

DType Checkpoint::stored_dtype() const {
  if (!tensors) return DType::kF32;
  std::array<std::size_t, 3> bytes = {};
  for (const auto& [name, tensor] : tensors->all()) {
    bytes[static_cast<std::size_t>(tensor.dtype)] += tensor.bytes.size();
  }
  return static_cast<DType>(std::max_element(bytes.begin(), bytes.end()) - bytes.begin());
}

std::string Checkpoint::content_hash() const {
  std::string text = generation_config;
  if (tensors) {
    for (const auto& [name, tensor] : tensors->all()) {
      text += name + hash_bytes(tensor.bytes);
      tensors->release_pages(tensor.bytes);
    }
  } else {
    text += fmt::format("random {}", seed);
  }
  return hash_text(text + "|" + config_text);
}

Stages Checkpoint::stages(std::size_t count) const {
  const auto layers = static_cast<std::size_t>(config.layers);
  if (count > layers) {
    throw input_error(
        "{}: found {} layers to spread over {} devices, expected one for each at least", name,
        layers, count);
  }
  const std::int64_t table = static_cast<std::int64_t>(config.vocab) * config.hidden;
  std::vector<std::int64_t> weights(layers, config.layer_parameter_count());
  weights.front() += table;
  weights.back() += table;
  return Stages(weights, count);
}

Model::Model(const Checkpoint& checkpoint, Backend& backend, DType dtype, Math math)
    : Model(checkpoint, std::array{&backend}, dtype, math) {}

Model::Model(const Checkpoint& checkpoint, std::span<Backend* const> backends, DType dtype,
             Math math)
    : config_(checkpoint.config),
      stages_(checkpoint.stages(backends.size())),
      dtype_(dtype),
      math_(math) {
  const ModelConfig& c = config_;
  if (backends[0]->memory()->is_host()) check_fits(checkpoint, dtype);
  std::set<std::string> loaded;
  std::vector<Source> sources;
  for (Backend* backend : backends) sources.emplace_back(checkpoint, *backend, dtype, math, loaded);
  const std::int64_t hidden = c.hidden, ffn = c.ffn, head_dim = c.head_dim;
  const std::int64_t q_size = c.heads * head_dim, kv_size = c.kv_heads * head_dim;
  for (int l = 0; l < c.layers; ++l) {
    const Source& source = sources[stages_.stage_of(l)];
    const std::string at = fmt::format("model.layers.{}.", l);
    LayerWeights w;
    w.attention_norm = source.weight_vector(at + "input_layernorm.weight", hidden, 1);
    w.ffn_norm = source.weight_vector(at + "post_attention_layernorm.weight", hidden, 1);
    std::int64_t first = 0;
    std::vector<float> biases;
    for (const auto& [name, rows] :
         {std::pair("q", q_size), std::pair("k", kv_size), std::pair("v", kv_size)}) {
      const std::string tensor = at + "self_attn." + name + "_proj";
      source.load_rows(w.qkv, q_size + 2 * kv_size, first, tensor + ".weight", rows, hidden);
      if (c.qkv_bias) {
        const std::vector<float> bias = source.vector(tensor + ".bias", rows, 0);
        biases.insert(biases.end(), bias.begin(), bias.end());
      }
      first += rows;
    }
    w.qkv_bias = source.weight_vector(biases);
    source.load_rows(w.attention_out, hidden, 0, at + "self_attn.o_proj.weight", hidden, q_size);
    if (c.out_bias)
      w.attention_out_bias = source.weight_vector(at + "self_attn.o_proj.bias", hidden, 0);
    if (c.qk_norm) {
      w.q_norm = source.weight_vector(at + "self_attn.q_norm.weight", head_dim, 1);
      w.k_norm = source.weight_vector(at + "self_attn.k_norm.weight", head_dim, 1);
    }
    source.load_rows(w.gate_up, 2 * ffn, 0, at + "mlp.gate_proj.weight", ffn, hidden);
    source.load_rows(w.gate_up, 2 * ffn, ffn, at + "mlp.up_proj.weight", ffn, hidden);
    source.load_rows(w.down, hidden, 0, at + "mlp.down_proj.weight", hidden, ffn);
    if (c.mlp_bias) {
      std::vector<float> bias = source.vector(at + "mlp.gate_proj.bias", ffn, 0);
      const std::vector<float> up = source.vector(at + "mlp.up_proj.bias", ffn, 0);
      bias.insert(bias.end(), up.begin(), up.end());
      w.gate_up_bias = source.weight_vector(bias);
      w.down_bias = source.weight_vector(at + "mlp.down_proj.bias", hidden, 0);
    }
    layers_.push_back(std::move(w));
  }
  const Source &first = sources.front(), &last = sources.back();
  final_norm_ = last.weight_vector("model.norm.weight", hidden, 1);
  const std::string embedding = "model.embed_tokens.weight";
  last.load_rows(lm_head_, c.vocab, 0, c.tied_embeddings ? embedding : "lm_head.weight", c.vocab,
                 hidden);
  if (!c.tied_embeddings || stages_.count() > 1)
    first.load_rows(embedding_, c.vocab, 0, embedding, c.vocab, hidden);
  check_all_loaded(checkpoint, loaded);
  // Other backends read the weights in streams that do not wait for these backends.
  for (Backend* backend : backends) backend->memory()->synchronize();
  rope_frequencies_ = turnbench::rope_frequencies(c.rope, c.head_dim);
}

std::size_t Model::weight_bytes() const {
  std::size_t total = 0;
  for (std::size_t s = 0; s < stages_.count(); ++s) total += stage_weight_bytes(s);
  return total;
}

std::size_t Model::stage_weight_bytes(std::size_t stage) const {
  std::size_t total = 0;
  if (stage == 0 && embedding_) total += embedding_->bytes();
  if (stage + 1 == stages_.count()) total += lm_head_->bytes() + final_norm_.bytes();
  for (int l = stages_.first_layer(stage); l < stages_.first_layer(stage + 1); ++l) {
    const LayerWeights& w = layer(l);
    total += w.qkv->bytes() + w.attention_out->bytes() + w.gate_up->bytes() + w.down->bytes();
    for (const auto* v : {&w.attention_norm, &w.ffn_norm, &w.q_norm, &w.k_norm, &w.qkv_bias,
                          &w.attention_out_bias, &w.gate_up_bias, &w.down_bias}) {
      total += v->bytes();
    }
  }
  return total;
}

}  // namespace turnbench
