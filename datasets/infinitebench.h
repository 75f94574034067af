#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "datasets/dialogue.h"

namespace turnbench {

/// A task of InfiniteBench (Zhang et al. 2024).
struct InfiniteBenchTask {
  std::string_view name;  ///< as its file, e.g. longbook_qa_eng; its metric is infinitebench_NAME
  std::string_view description;
  std::string_view kind;
  int max_new_tokens = 0;             ///< of the official eval_utils.py
  bool has_options = false;           ///< four, A to D
  std::string_view instruction;       ///< our own wording, as is `default_question`
  std::string_view default_question;  ///< for records without a question; empty if all have one
};

std::span<const InfiniteBenchTask> infinitebench_tasks();

/// Reads a native file: {"id", "context", "input", "answer", "options"}; `answer` is a text, a
/// number or a list of these.  In tasks with options the references are the right option and its
/// letter, as in the official get_answer.  Every paragraph has the source "context".
/// @throws Error (input) for other fields, wrong types, and answers that are none of the options.
std::vector<Dialogue> read_infinitebench(const std::filesystem::path& file,
                                         const InfiniteBenchTask& task, const std::string& name,
                                         std::size_t limit);

}  // namespace turnbench
