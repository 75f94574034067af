#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "datasets/dialogue.h"

namespace turnbench {

/// A task of RULER (Hsieh et al. 2024) as its own generator writes it.
struct RulerTask {
  std::string_view name;  ///< as its file, e.g. niah_multikey_3
  std::string_view description;
  std::string_view kind;  ///< RULER's category: retrieval, tracing, aggregation, qa
  std::string_view metric;
  int max_new_tokens = 0;
};

std::span<const RulerTask> ruler_tasks();

/// Where a directory may have the file of a task.
std::vector<std::string> ruler_files(const RulerTask& task);

/// A native file: {"index", "input", "outputs", "length"}, where `input` is the whole prompt.  Its
/// first line is the instruction and its last the question with the beginning of the answer (where
/// there are only two lines, the first is the context); what is between is the context, in
/// paragraphs with sources "part-1", ... .  Relevant are those that hold an output, all if none
/// does.  Refuses other fields, wrong types and prompts of one line.
std::vector<Dialogue> read_ruler(const std::filesystem::path& file, const RulerTask& task,
                                 const std::string& name, std::size_t limit);

}  // namespace turnbench
