#pragma once

#include <cstddef>
#include <span>
#include <string_view>

namespace turnbench::embedded {

/// The files of the model `tiny`, linked into the program.
std::string_view config();
std::string_view generation_config();
std::string_view tokenizer();
std::string_view tokenizer_config();
std::span<const std::byte> weights();

}  // namespace turnbench::embedded
