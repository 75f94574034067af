#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "datasets/dialogue.h"

namespace turnbench {

/// GSM8K (Cobbe et al. 2021): {"question", "answer"}, where the number stands behind "#### ".  With
/// a file of worked examples (`gsm8k_cot_prompt_formal.txt`, as PQCache uses it), each of them is a
/// paragraph with a source "example-1", ... before the question; they end with "The answer is N".
/// Refuses other fields, and answers without a number.
std::vector<Dialogue> read_gsm8k(const std::filesystem::path& file,
                                 const std::filesystem::path& examples, const std::string& name,
                                 std::size_t limit);

}  // namespace turnbench
