#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "datasets/dialogue.h"
#include "datasets/paragraphs.h"

namespace turnbench {

/// A task of SCBench (Li et al. 2025).
struct SCBenchTask {
  std::string_view name;  ///< as its file without "scbench_", e.g. kv
  std::string_view description;
  std::string_view kind;
  std::string_view metric;
  int max_new_tokens = 0;    ///< of the official eval_utils.py
  bool has_options = false;  ///< four, A to D
  SplitRule split = SplitRule::kProse;
  /// Our own wording; empty if the official contexts have an instruction.
  std::string_view instruction = "";
};

/// The tasks with one automatic metric.  repoqa and repoqa_and_kv are missing because their
/// official score parses the answer as code, and summary_with_needles because it has two metrics.
///
/// The answers of qa_chn and many_shot are texts.  The official scorer treats them as lists and so
/// compares single characters; here the whole texts are compared.
std::span<const SCBenchTask> scbench_tasks();

/// Reads a native file, jsonl as the dataset's page describes it: {"context", "multi_turns":
/// [{"input", "answer", "options"}]}.  In vt the context is called `input`; in mf it is a list of
/// integers.  An `answer` is a text, a number or a list of these.  A record becomes a dialogue
/// whose first turn has the context.  As in the official runs, turns after the fifth are left out.
/// In tasks with options the references are the right option and its letter, as in the official
/// get_ground_truth.  Every paragraph has the source "context".  Other fields are ignored, because
/// they differ between tasks.
/// @throws Error (input), with file, line and field, for missing fields, wrong types, empty
/// contexts and questions, and answers that are none of the options.
///
/// Based on the official code and the dataset's page; not tested on an original file.
std::vector<Dialogue> read_scbench(const std::filesystem::path& file, const SCBenchTask& task,
                                   const std::string& name, std::size_t limit);

}  // namespace turnbench
