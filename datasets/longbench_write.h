#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "datasets/dialogue.h"

namespace turnbench {

/// Reads LongBench-Write (Bai et al. 2024, LongWriter): {"prompt", "type", "length"}.  The prompt
/// is the question, unchanged and without a context.  The reference is the requested length in
/// words (Chinese characters), for the metric longbench_write_length; there is no gold answer.  The
/// benchmark's other score, the quality of the text, needs a judge model and is not computed here.
/// Answers have at most 32,768 tokens, as in the official pred.py, which samples at temperature
/// 0.5.
/// @throws Error (input) for other fields, wrong types, empty prompts and lengths below 1.
std::vector<Dialogue> read_longbench_write(const std::filesystem::path& file,
                                           const std::string& name, std::size_t limit);

}  // namespace turnbench
