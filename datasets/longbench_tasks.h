#pragma once

#include <span>
#include <string>
#include <string_view>

#include "datasets/paragraphs.h"

namespace turnbench {

/// The texts that a dialogue adds to those of its records.  The wording is ours; the official
/// prompts are in LongBench's dataset2prompt.json.  {document} is replaced by the name of the
/// record's context, {input} by the record's question.
struct Wording {
  std::string_view instruction;       ///< comes first in every turn
  std::string_view default_question;  ///< for records without a question; empty if all have one
  std::string_view question_about_document;  ///< the question if a dialogue has several contexts
  std::string_view document_name;            ///< {document} if there is one context
  /// {document} if there are several contexts; {letter} distinguishes them.
  std::string_view document_label;
};

/// The way in which a task's records become multi-turn dialogues (see multi_turn.h).
enum class Grouping {
  kRecords,   ///< one record per turn
  kExamples,  ///< one record per dialogue; its examples are distributed over the turns
};

/// One of LongBench's 21 tasks.  Metric, answer length and LongBench-E membership are those of the
/// official eval.py, dataset2maxlen.json and pred.py.
struct LongBenchTask {
  std::string_view name;
  std::string_view description;
  std::string_view kind;      ///< qa, summary, few-shot, synthetic or code
  std::string_view language;  ///< en, zh or code
  std::string_view metric;
  int max_new_tokens = 0;
  bool in_longbench_e = false;  ///< also part of LongBench-E
  Grouping grouping = Grouping::kRecords;
  int turns = 0;  ///< of its multi-turn variant
  ContextLayout layout;
  Wording wording;
};

std::span<const LongBenchTask> longbench_tasks();

/// The task called `name`, which may end in "_e" for LongBench-E.
/// @throws Error (input) for an unknown name, with the nearest known one; `where` names the place.
const LongBenchTask& find_longbench_task(std::string_view name, const std::string& where);

/// The heading of each chunk of a record's context in dialogues of several records:
/// "[Report B, part 1 of 2]".
std::string chunk_heading(const LongBenchTask& task, std::string_view label, std::size_t part,
                          std::size_t parts);

/// The instruction of the second and later turns of `Grouping::kExamples`, which add further
/// examples.
std::string_view refine_instruction(const LongBenchTask& task);

}  // namespace turnbench
