#pragma once

#include <span>
#include <string>
#include <string_view>

#include "datasets/paragraphs.h"

namespace turnbench {

/// What a dialogue says besides the record's own text.  These sentences are the project's own; the
/// official prompts are read from LongBench's dataset2prompt.json.  {document} is the name of the
/// record's context, {input} the record's question.
struct Wording {
  std::string_view instruction;  ///< before everything else, in every turn
  std::string_view
      default_question;  ///< the question of records that have none; empty if all have one
  std::string_view
      question_about_document;     ///< the question where a dialogue holds several contexts
  std::string_view document_name;  ///< {document} where there is one context
  std::string_view
      document_label;  ///< {document} where there are several; {letter} tells them apart
};

/// How multi-turn dialogues are made of a task's records (see multi_turn.h).
enum class Grouping {
  kRecords,   ///< one record a turn
  kExamples,  ///< one record for all turns, which share its examples
};

/// Facts on one of LongBench's 21 tasks.  Metrics, lengths and LongBench-E membership are those of
/// the official eval.py, dataset2maxlen.json and pred.py.
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

/// The task of `name`, which is a task's name or, for LongBench-E, that and "_e".  Refuses any
/// other name with the nearest known one; `where` names the place in messages.
const LongBenchTask& find_longbench_task(std::string_view name, const std::string& where);

/// Stands before each stretch of a record's context where a dialogue holds several records:
/// "[Report B, part 1 of 2]".
std::string chunk_heading(const LongBenchTask& task, std::string_view label, std::size_t part,
                          std::size_t parts);

/// The instruction of the later turns where each turn brings further examples.
std::string_view refine_instruction(const LongBenchTask& task);

}  // namespace turnbench
