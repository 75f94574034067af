#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <string>

#include "common/file.h"
#include "tests/inference/conversation.h"

namespace turnbench::test {

/// A copy of the model `qwen2` whose values are the same vector at every token.
class ConstantValues {
 public:
  ConstantValues() : directory_(testing::TempDir() + "turnbench-constant-values") {
    std::filesystem::create_directories(directory_);
    std::filesystem::copy_file(kModels / "qwen2" / "config.json", directory_ / "config.json",
                               std::filesystem::copy_options::overwrite_existing);
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
    write_file(directory_ / "model.safetensors", file);
  }
  ~ConstantValues() { std::filesystem::remove_all(directory_); }
  std::string path() const { return directory_.string(); }

 private:
  std::filesystem::path directory_;
};

}  // namespace turnbench::test
