#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "harness/experiment/plan.h"
#include "harness/experiment/prompt_lengths.h"
#include "harness/store/timed_dialogue.h"
#include "inference/backend/backend.h"

namespace turnbench {

/// What dialogues took, added up: prefills by the operations of dense attention, decoding by
/// tokens.
struct MethodSpeed {
  double prefill_flops = 0, prefill_seconds = 0, decode_seconds = 0;
  std::size_t dialogues = 0, answers = 0, cut_answers = 0, answer_tokens = 0, ended_tokens = 0;

  void add(const ModelConfig& config, const TimedDialogue& timed);
  /// Seconds of a prefill of so many operations.
  double prefill(double flops) const;
  double decode(double tokens) const;
  /// Tokens of an answer of at most `limit`: as many as answers had that ended before their limit,
  /// and the limit for the share that did not.
  double expected_answer(std::int64_t limit) const;
};

/// Speeds of methods on this machine, by model, method and dataset.
class Speeds {
 public:
  void add(const ModelConfig& config, const TimedDialogue& timed);
  /// Of the method on this dataset, or else on all that there are; null if it was never timed.
  const MethodSpeed* of(const std::string& model_hash, const std::string& method,
                        const std::string& dataset_hash) const;
  /// Of all methods of a model; null if none was timed.
  const MethodSpeed* of_model(const std::string& model_hash) const;

 private:
  struct OfMethod {
    MethodSpeed all;
    std::map<std::string, MethodSpeed> by_dataset;
  };
  struct OfModel {
    MethodSpeed all;
    std::map<std::string, OfMethod> by_method;
  };
  std::map<std::string, OfModel> models_;
};

/// How long a plan takes.
struct PlannedTime {
  double seconds = 0;
  /// Dialogues in cells by what their time follows from: times of the method, of other methods
  /// of the model, or the peak speed of the machine alone.
  std::size_t timed = 0, like_others = 0, by_peak = 0;
  PlannedTime& operator+=(const PlannedTime& other);
};

/// `workers`: of each model.  `peak` measures what this machine can do, of which models get about
/// half; it is called only if a model was never timed.
PlannedTime estimate_time(const Plan& plan, const Speeds& speeds, PlannedLengths& lengths,
                          std::span<const int> workers, const std::function<Ceilings()>& peak);

}  // namespace turnbench
