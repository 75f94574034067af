#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "datasets/dialogue.h"

namespace turnbench {

/// A task of RULER (Hsieh et al. 2024), read from the files of RULER's own generator.
struct RulerTask {
  std::string_view name;  ///< as its file, e.g. niah_multikey_3
  std::string_view description;
  std::string_view kind;  ///< RULER's category: retrieval, tracing, aggregation, qa
  std::string_view metric;
  int max_new_tokens = 0;
};

std::span<const RulerTask> ruler_tasks();

/// Possible paths of a task's file in a directory.
std::vector<std::string> ruler_files(const RulerTask& task);

/// Reads a native file: {"index", "input", "outputs", "length"}; `input` is the whole prompt.  Its
/// first line is the instruction, its last line the question and the answer prefix, and the lines
/// between are the context, in paragraphs with the sources "part-1", ...  If there are only two
/// lines, the first is the context.  Some versions of the generators write the answer prefix as a
/// field of its own ("answer_prefix").  Paragraphs that contain an output are relevant; if none
/// does, all are.
/// @throws Error (input) for other fields, wrong types, prompts of one line and prompts without an
/// answer prefix.
std::vector<Dialogue> read_ruler(const std::filesystem::path& file, const RulerTask& task,
                                 const std::string& name, std::size_t limit);

}  // namespace turnbench
