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
  std::string_view instruction =
      "";  ///< our own wording; the official contexts of some have theirs
};

/// The tasks that have one automatic metric.  Not here are repoqa and repoqa_and_kv, whose official
/// score parses the answer as code, and summary_with_needles, which has two metrics.
///
/// The official scorer takes the answers of qa_chn and many_shot, which are texts, for lists, and
/// so compares with their single characters.  Here they are compared as a whole.
std::span<const SCBenchTask> scbench_tasks();

/// A native file, jsonl as the data set's page describes it: {"context", "multi_turns": [{"input",
/// "answer", "options"}]}.  In vt the context is called `input`, in mf it is a list of integers; an
/// `answer` is a text, a number or a list of these.  Each record is a dialogue whose first turn has
/// the context; as in the official runs, turns after the fifth are left out.  References of tasks
/// with options are the right option and its letter, as the official get_ground_truth gives them.
/// Every paragraph has the source "context".  The fields of a record differ from task to task and
/// others are ignored.  Refuses, with file, line and field, missing ones, wrong types, empty
/// contexts and questions, and answers that are none of the options.
///
/// Written from the official code and the data set's page alone: no original file has been read.
std::vector<Dialogue> read_scbench(const std::filesystem::path& file, const SCBenchTask& task,
                                   const std::string& name, std::size_t limit);

}  // namespace turnbench
