#include "tests/cli/small_model.h"

namespace turnbench::test {

SmallModel::SmallModel() {
  const std::string layer = "model.layers.0.";
  add("model.embed_tokens.weight", {16, 8});
  add("model.norm.weight", {8});
  add(layer + "input_layernorm.weight", {8});
  add(layer + "post_attention_layernorm.weight", {8});
  add(layer + "self_attn.q_proj.weight", {8, 8});
  add(layer + "self_attn.k_proj.weight", {4, 8});
  add(layer + "self_attn.v_proj.weight", {4, 8});
  add(layer + "self_attn.o_proj.weight", {8, 8});
  add(layer + "mlp.gate_proj.weight", {12, 8});
  add(layer + "mlp.up_proj.weight", {12, 8});
  add(layer + "mlp.down_proj.weight", {8, 12});
}

void SmallModel::add(const std::string& name, const std::vector<std::size_t>& shape) {
  std::size_t count = 1;
  for (std::size_t s : shape) count *= s;
  const std::size_t begin = data.size();
  for (std::size_t i = 0; i < count; ++i) {
    const float value = 0.01f * static_cast<float>(i % 7);
    data.append(reinterpret_cast<const char*>(&value), sizeof(value));
  }
  header[name] = {{"dtype", "F32"}, {"shape", shape}, {"data_offsets", {begin, data.size()}}};
}

std::string length_of(std::uint64_t size) {
  return {reinterpret_cast<const char*>(&size), sizeof(size)};
}

std::string safetensors(const std::string& header, const std::string& data) {
  return length_of(header.size()) + header + data;
}

Arguments logits(const std::string& model) {
  return {"logits", "--model", model, "--ids", "1,2,3", "--last"};
}

Arguments write_model(const TemporaryDirectory& d, const SmallModel& m) {
  d.write("m/config.json", m.config.dump(1));
  d.write("m/model.safetensors", safetensors(m.header.dump(), m.data));
  return logits(d.path("m"));
}

Malformed damaged(const char* name, std::function<void(SmallModel&)> damage, const char* expected) {
  return {name,
          [damage](const TemporaryDirectory& d) {
            SmallModel m;
            damage(m);
            return write_model(d, m);
          },
          expected};
}

}  // namespace turnbench::test
