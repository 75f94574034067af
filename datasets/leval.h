#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "datasets/dialogue.h"
#include "datasets/paragraphs.h"

namespace turnbench {

/// The form of the answers in the files of a task of L-Eval.
enum class LEvalAnswer {
  kText,     ///< the expected text; open-ended questions also state its length
  kLetters,  ///< "B", "BD" or "(B) the option's text": the letters are the reference
  kWords,    ///< a name or a number
  kTruth,    ///< "True [fact: False]": the part before the bracket is the reference
};

/// A task of L-Eval (An et al. 2023).
struct LEvalTask {
  std::string_view name;    ///< as its file, e.g. gov_report_summ
  std::string_view folder;  ///< Closed-ended-tasks or Open-ended-tasks
  std::string_view description;
  std::string_view kind;
  std::string_view evaluation;  ///< `evaluation` of its records: exam, f1 or rouge
  std::string_view metric;      ///< ours
  LEvalAnswer answer = LEvalAnswer::kText;
  SplitRule split = SplitRule::kProse;
  /// Our own wording, similar to the official one.
  std::string_view instruction = "Follow the instruction about the following document.";
};

/// All twenty tasks.  Each has our metric that is nearest to the official auto_eval.py:
///   - f1: qa_f1, the same.
///   - rouge: rouge_score_l, the same as the official rougeL.  The official score is the geometric
///     mean of rougeL, rouge-1 and rouge-2.
///   - exam: leval_letter for options, leval_letters for coursera, leval_code for codeU and
///     leval_stated for topic_retrieval_longchat, all the same.  gsm100: gsm8k, which takes the
///     last number; the official scorer prefers the one after "The answer is".
///   - sci_fi: accuracy of the answer from the document.  The official score also includes answers
///   that are generated without the document.
std::span<const LEvalTask> leval_tasks();

/// Possible paths of a task's file in a directory: in the task's folder, in that folder within
/// LEval-data/, or in the directory itself.
std::vector<std::string> leval_files(const LEvalTask& task);

/// Reads a native file, one document a line: {"instructions", "outputs", "input", "source",
/// "evaluation"}.  A document becomes a dialogue: each question is a turn, and the first turn has
/// the document.  Every paragraph has the source "document".  Skips records that the official
/// harness leaves to judges (evaluation "human" or "LLM").
/// @throws Error (input), with file, line and field, for other fields, wrong types, empty documents
/// and questions, unequal numbers of outputs and instructions, and another evaluation than the
/// task's.
std::vector<Dialogue> read_leval(const std::filesystem::path& file, const LEvalTask& task,
                                 const std::string& name, std::size_t limit);

}  // namespace turnbench
