#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/cli/program.h"

namespace turnbench::test {

/// A valid Llama of one layer, in parts that the cases damage.
struct SmallModel {
  OrderedJson config = {{"model_type", "llama"},
                        {"hidden_size", 8},
                        {"num_hidden_layers", 1},
                        {"num_attention_heads", 2},
                        {"num_key_value_heads", 1},
                        {"intermediate_size", 12},
                        {"vocab_size", 16},
                        {"rms_norm_eps", 1e-5},
                        {"tie_word_embeddings", true},
                        {"max_position_embeddings", 64}};
  OrderedJson header;
  std::string data;

  SmallModel();
  void add(const std::string& name, const std::vector<std::size_t>& shape);
  OrderedJson& tensor(const char* name = "model.norm.weight") { return header[name]; }
};

/// The bytes of a safetensors file: 8 bytes of length, the header, the data.
std::string length_of(std::uint64_t size);
std::string safetensors(const std::string& header, const std::string& data);

/// `logits` of a model at three tokens.
Arguments logits(const std::string& model);

/// Writes m/config.json and m/model.safetensors; returns the arguments that run them.
Arguments write_model(const TemporaryDirectory& d, const SmallModel& m);

/// A case that changes parts of the valid model.
Malformed damaged(const char* name, std::function<void(SmallModel&)> damage, const char* expected);

}  // namespace turnbench::test
