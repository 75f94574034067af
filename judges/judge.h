#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "harness/store/store.h"
#include "judges/chat.h"
#include "judges/rubric.h"

namespace turnbench {

struct JudgeOptions {
  std::vector<std::string> experiments;
  int judgings = 1;     ///< of each answer
  int concurrency = 4;  ///< requests at the same time
  ChatOptions chat;
};

struct JudgeProgress {
  std::size_t judgings = 0;                        ///< that are asked for
  std::size_t done = 0, unparsed = 0, failed = 0;  ///< failed and unparsed ones are done, too
  double seconds = 0;
};

struct JudgeSummary {
  std::string postprocess;  ///< under which the scores are stored: the judge
  std::size_t stored = 0;   ///< judgings that were there already
  JudgeProgress progress;
  std::vector<std::string> errors;  ///< of failed judgings, one line each
  bool stopped = false;
};

/// Has the answers of experiments judged.  Only what the store lacks is asked: a judging belongs to
/// an answer, the rubric's text, the model, and its number.  Every reply is stored as it came, with
/// what was read out of it.  Once an answer has all its judgings, the means of those that could be
/// read become its scores: metrics judge:RUBRIC and judge:RUBRIC:DIMENSION, as shares of the
/// scale's upper end.  `should_stop` is asked between requests, `report` called after each.
JudgeSummary judge_answers(Store& store, const Rubric& rubric, const JudgeOptions& options,
                           const std::function<bool()>& should_stop,
                           const std::function<void(const JudgeProgress&)>& report);

}  // namespace turnbench
