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
  int judgements = 1;   ///< number of judgements for each answer
  int concurrency = 4;  ///< number of simultaneous requests
  ChatOptions chat;
};

struct JudgeProgress {
  std::size_t judgements = 0;                      ///< to be requested in this run
  std::size_t done = 0, unparsed = 0, failed = 0;  ///< `done` includes unparsed and failed ones
  double seconds = 0;
};

struct JudgeSummary {
  std::string postprocess;  ///< postprocess name of the stored scores, which names the judge
  std::size_t stored = 0;   ///< judgements that the store already had
  std::size_t read = 0;     ///< judgements with scores, including stored ones
  JudgeProgress progress;
  std::vector<std::string> errors;  ///< one line for each failed judgement
  std::string unparsed;   ///< an example of an unparsed judgement: its answer, the reason and the
                          ///< reply; or empty
  std::string no_server;  ///< why the endpoint is considered unavailable; or empty
  bool stopped = false;
};

/// Has a language model judge the answers of experiments.  Requests only judgements that the store
/// lacks: a judgement is identified by the answer, the rubric's text, the model, and its ordinal.
/// Every reply is stored unchanged, with the scores read from it.  Once an answer has all its
/// judgements, the means of the readable ones become its scores: the metrics judge:RUBRIC and
/// judge:RUBRIC:DIMENSION, as fractions of the upper end of the scale.  Polls `should_stop` between
/// requests and calls `report` after each.  Stops if the endpoint does not respond.
JudgeSummary judge_answers(Store& store, const Rubric& rubric, const JudgeOptions& options,
                           const std::function<bool()>& should_stop,
                           const std::function<void(const JudgeProgress&)>& report);

}  // namespace turnbench
