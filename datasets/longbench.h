#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "datasets/dialogue.h"
#include "datasets/longbench_tasks.h"

namespace turnbench {

/// One line of a native LongBench file (Bai et al. 2023).
struct LongBenchRecord {
  std::string id;        ///< `_id`
  std::string language;  ///< en, zh, or a programming language
  std::string input;     ///< the question; empty for tasks that are a question themselves
  std::string context;
  std::vector<std::string> answers;  ///< at least one
  std::vector<std::string> classes;  ///< `all_classes`; empty unless the task is a classification
  std::int64_t length = 0;           ///< words (characters of Chinese), as the file says
};

/// Where a directory or an archive may have the file of a task: NAME.jsonl, there or in its folders
/// data/, native/ or recovered/.  `name` is a task's name, with "_e" for LongBench-E.
std::vector<std::string> longbench_files(std::string_view name);

/// The first of `longbench_files`; see `find_source_file`.
std::filesystem::path find_longbench_file(const std::filesystem::path& source,
                                          std::string_view name);

/// Calls `take` for each record of a native file, one at a time.  Refuses, with file, line and
/// field, what lacks one of the eight fields or has another one, wrong types, records of another
/// task.
void for_each_longbench_record(const std::filesystem::path& file, std::string_view name,
                               const std::function<void(LongBenchRecord&&)>& take);

/// All records of a task.  Where an id occurs again, the later records get "~2", "~3", ... added.
std::vector<LongBenchRecord> read_longbench(const std::filesystem::path& source,
                                            std::string_view name);

/// The record as a dialogue of one turn: its context in paragraphs, its question (where it has
/// none, the task's own) and its answers.  Every paragraph has the record's id as its source.
Dialogue longbench_dialogue(std::string_view name, const LongBenchRecord& record);

/// Official prompt templates by task, from dataset2prompt.json in the directory of `source`, in its
/// config/ or in the config/ beside it; none if there is no such file.
std::map<std::string, std::string> load_official_prompts(const std::filesystem::path& source);

/// The template of task `name`, with or without "_e", among those of `load_official_prompts`.
/// Refuses a source that has none.
std::string official_prompt(const std::filesystem::path& source, std::string_view name);

/// The record as a dialogue whose one turn is its official prompt: {context} and {input} filled in,
/// everything else as it stands.  The instruction is what stands before the context, the question
/// what stands behind it.  As in the official pred.py, few-shot and code tasks are not wrapped by
/// the chat template.
Dialogue official_dialogue(std::string_view name, const LongBenchRecord& record,
                           std::string_view prompt);

}  // namespace turnbench
