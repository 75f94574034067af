#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "datasets/dialogue.h"

namespace turnbench {

/// LongBench-Write (Bai et al. 2024, LongWriter): {"prompt", "type", "length"}.  The prompt is the
/// question as it stands, without a context; the reference is the length it asks for, in words
/// (Chinese characters), which the metric longbench_write_length reads.  The benchmark's other
/// score, the quality of the text, is a language model's judgement and not computed.  Answers may
/// have 32,768 tokens, as in the official pred.py, which draws them at temperature 0.5.  Refuses
/// other fields, wrong types, empty prompts and lengths below 1.
std::vector<Dialogue> read_longbench_write(const std::filesystem::path& file,
                                           const std::string& name, std::size_t limit);

}  // namespace turnbench
