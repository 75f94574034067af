#pragma once

#include <cstring>
#include <string>

#include "common/file.h"
#include "tests/inference/conversation.h"
#include "tests/temporary_directory.h"

namespace turnbench::test {

/// A copy of the model `qwen2` whose value vectors are the same at every token.
class ConstantValues {
 public:
  ConstantValues() {
    directory_.write("config.json", read_file(kModels / "qwen2" / "config.json"));
    std::string file = read_file(kModels / "qwen2" / "model.safetensors");
    const Safetensors tensors =
        Safetensors::from_memory(std::as_bytes(std::span(file)), "model.safetensors");
    for (const auto& [name, tensor] : tensors.all()) {
      const auto at = reinterpret_cast<const char*>(tensor.bytes.data()) - file.data();
      char* data = file.data() + at;
      if (name.ends_with("v_proj.weight")) std::memset(data, 0, tensor.bytes.size());
      if (!name.ends_with("v_proj.bias")) continue;
      for (std::size_t i = 0; i < tensor.bytes.size() / sizeof(float); ++i) {
        const float value = 0.5f - 0.1f * static_cast<float>(i % 9);
        std::memcpy(data + i * sizeof(float), &value, sizeof(float));
      }
    }
    directory_.write("model.safetensors", file);
  }
  std::string path() const { return directory_.path().string(); }

 private:
  TemporaryDirectory directory_;
};

}  // namespace turnbench::test
