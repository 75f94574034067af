#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "datasets/dialogue.h"
#include "datasets/paragraphs.h"

namespace turnbench {

/// How the answers of a task of L-Eval stand in its files.
enum class LEvalAnswer {
  kText,     ///< as they are to be given; open-ended questions say how long
  kLetters,  ///< "B", "BD" or "(B) the option's text": the letters are the reference
  kWords,    ///< a name or a number
  kTruth,    ///< "True [fact: False]": what the document says is the reference
};

/// A task of L-Eval (An et al. 2023).
struct LEvalTask {
  std::string_view name;    ///< as its file, e.g. gov_report_summ
  std::string_view folder;  ///< Closed-ended-tasks or Open-ended-tasks
  std::string_view description;
  std::string_view kind;
  std::string_view evaluation;  ///< of its records: exam, f1 or rouge
  std::string_view metric;      ///< ours
  LEvalAnswer answer = LEvalAnswer::kText;
  SplitRule split = SplitRule::kProse;
  /// In our own wording, after the official one.
  std::string_view instruction = "Follow the instruction about the following document.";
};

/// All twenty.  Metrics are ours that come nearest to the official auto_eval.py:
///   - f1 is qa_f1, the same.
///   - rouge is rouge_score_l, the same as the official rougeL; the official score is the geometric
///     mean of it, rouge-1 and rouge-2.
///   - exam is leval_letter for options, leval_letters for coursera, leval_code for codeU and
///     leval_stated for topic_retrieval_longchat, all the same; gsm100 is gsm8k (the last number;
///     officially the one behind "The answer is" before others).
///   - sci_fi is accuracy of the document's half; the official score asks a second time without the
///     document and counts both.
std::span<const LEvalTask> leval_tasks();

/// Where a directory may have the file of a task: in its folder, also below LEval-data/, or itself.
std::vector<std::string> leval_files(const LEvalTask& task);

/// A native file, a document a line: {"instructions", "outputs", "input", "source", "evaluation"}.
/// Each is a dialogue whose first turn has the document, and whose turns are its questions.  Every
/// paragraph has the source "document".  Records that the official harness leaves to judges
/// (evaluation "human" or "LLM") are left out.  Refuses, with file, line and field, other fields,
/// wrong types, empty documents and questions, another number of outputs than of instructions, and
/// another evaluation than the task's.
std::vector<Dialogue> read_leval(const std::filesystem::path& file, const LEvalTask& task,
                                 const std::string& name, std::size_t limit);

}  // namespace turnbench
