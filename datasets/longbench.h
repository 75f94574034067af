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
  std::string input;     ///< the question; empty for tasks with one question for all records
  std::string context;
  std::vector<std::string> answers;  ///< at least one
  std::vector<std::string> classes;  ///< `all_classes`; empty unless the task is a classification
  std::int64_t length = 0;           ///< `length`: in words (characters for Chinese)
};

/// Possible paths of a task's file in a directory or archive: NAME.jsonl, also in the folders
/// data/, native/ and recovered/.  `name` is a task's name, with "_e" for LongBench-E.
std::vector<std::string> longbench_files(std::string_view name);

/// The first of `longbench_files` that exists; see `find_source_file`.
std::filesystem::path find_longbench_file(const std::filesystem::path& source,
                                          std::string_view name);

/// Calls `visit` for each record of a native file.  Only one record is in memory at a time.
/// @throws Error (input), with file, line and field, if one of the eight fields is missing, for
/// other fields, wrong types, and records of another task.
void for_each_longbench_record(const std::filesystem::path& file, std::string_view name,
                               const std::function<void(LongBenchRecord&&)>& visit);

/// All records of a task.  If an id is repeated, "~2", "~3", ... is appended to the later ones.
std::vector<LongBenchRecord> read_longbench(const std::filesystem::path& source,
                                            std::string_view name);

/// The record as a dialogue of one turn: its context in paragraphs, its question (or the task's
/// default question) and its answers.  The source of every paragraph is the record's id.
Dialogue longbench_dialogue(std::string_view name, const LongBenchRecord& record);

/// Official prompt templates by task, from dataset2prompt.json.  Looks for the file in the
/// directory of `source`, in its config/, and in the neighbouring config/; empty if there is no
/// such file.
std::map<std::string, std::string> load_official_prompts(const std::filesystem::path& source);

/// The template of task `name`, with or without "_e", from `load_official_prompts`.
/// @throws Error (input) if the source has none.
std::string official_prompt(const std::filesystem::path& source, std::string_view name);

/// The record as a dialogue whose single turn is its official prompt, with {context} and {input}
/// filled in and nothing else changed.  The text before the context becomes the instruction, the
/// text after it the question.  As in the official pred.py, few-shot and code tasks are not wrapped
/// by the chat template.
Dialogue official_dialogue(std::string_view name, const LongBenchRecord& record,
                           std::string_view prompt);

}  // namespace turnbench
