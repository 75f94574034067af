#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "datasets/dialogue.h"

namespace turnbench {

/// Reads GSM8K (Cobbe et al. 2021): {"question", "answer"}; the number follows "#### " in the
/// answer.  `examples` may name a file of worked examples (`gsm8k_cot_prompt_formal.txt`, as
/// PQCache uses it) that end with "The answer is N".  Each becomes a paragraph before the question,
/// with source "example-1", ...
/// @throws Error (input) for other fields and answers without a number.
std::vector<Dialogue> read_gsm8k(const std::filesystem::path& file,
                                 const std::filesystem::path& examples, const std::string& name,
                                 std::size_t limit);

}  // namespace turnbench
