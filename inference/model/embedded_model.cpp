#include "inference/model/embedded_model.h"

extern "C" {
extern const std::byte turnbench_tiny_config_begin[], turnbench_tiny_config_end[];
extern const std::byte turnbench_tiny_generation_config_begin[],
    turnbench_tiny_generation_config_end[];
extern const std::byte turnbench_tiny_tokenizer_begin[], turnbench_tiny_tokenizer_end[];
extern const std::byte turnbench_tiny_tokenizer_config_begin[],
    turnbench_tiny_tokenizer_config_end[];
extern const std::byte turnbench_tiny_weights_begin[], turnbench_tiny_weights_end[];
}

namespace turnbench::embedded {
namespace {

std::string_view text(const std::byte* begin, const std::byte* end) {
  return {reinterpret_cast<const char*>(begin), static_cast<std::size_t>(end - begin)};
}

}  // namespace

std::string_view config() {
  return text(turnbench_tiny_config_begin, turnbench_tiny_config_end);
}
std::string_view generation_config() {
  return text(turnbench_tiny_generation_config_begin, turnbench_tiny_generation_config_end);
}
std::string_view tokenizer() {
  return text(turnbench_tiny_tokenizer_begin, turnbench_tiny_tokenizer_end);
}
std::string_view tokenizer_config() {
  return text(turnbench_tiny_tokenizer_config_begin, turnbench_tiny_tokenizer_config_end);
}
std::span<const std::byte> weights() {
  return {turnbench_tiny_weights_begin, turnbench_tiny_weights_end};
}

}  // namespace turnbench::embedded
