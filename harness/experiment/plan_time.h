#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "harness/experiment/plan.h"
#include "harness/experiment/prompt_lengths.h"
#include "harness/store/timed_dialogue.h"
#include "inference/backend/backend.h"

namespace turnbench {

/// Accumulated times of dialogues: prefills by the operations of dense attention, decoding by
/// tokens.
struct MethodSpeed {
  bool single = true;  ///< only times of sequences that shared nothing
  double prefill_flops = 0, prefill_seconds = 0, decode_seconds = 0;
  std::size_t dialogues = 0, answers = 0, cut_answers = 0, answer_tokens = 0, ended_tokens = 0;

  void add(const ModelConfig& config, const TimedDialogue& timed);
  /// Seconds of a prefill of `flops` operations.
  double prefill(double flops) const;
  double decode(double tokens) const;
  /// The same per token if `cells` sequences decode together: weights are read once for all, but
  /// each has its own operations, at the speed of a prefill.
  double shared_step(const ModelConfig& config, double cells) const;
  /// Expected tokens of an answer with this limit: the mean length of answers that ended before
  /// their limit, weighted with the limit for the share of answers that reached it.
  double expected_answer(std::int64_t limit) const;
};

/// Measured speeds of methods on this machine, by model, method and dataset.
class Speeds {
 public:
  void add(const ModelConfig& config, const TimedDialogue& timed);
  /// Speed of the method on this dataset, or else on all datasets; null if it was never timed.
  const MethodSpeed* of(const std::string& model_hash, const std::string& method,
                        const std::string& dataset_hash) const;
  /// Speed over all methods of a model; null if none was timed.
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

/// Estimated time of a plan.
struct PlannedTime {
  double seconds = 0;
  /// Number of (cell, dialogue) pairs by the source of the estimate: times of the method, times of
  /// other methods of the model, or only the machine's peak speed.
  std::size_t timed = 0, like_others = 0, by_peak = 0;
  PlannedTime& operator+=(const PlannedTime& other);
};

/// `workers`: number of workers for each model.  `peak` measures the machine's peak speed, of which
/// models reach about half; it is called only if a model was never timed.
PlannedTime estimate_time(const Plan& plan, const Speeds& speeds, PlannedLengths& lengths,
                          std::span<const int> workers, const std::function<Ceilings()>& peak);

/// Estimated seconds of each unit of a plan in one worker; nullopt if the speed of a cell's model
/// is not known.
struct UnitTimes {
  std::vector<std::optional<double>> units, probe_units;  ///< as in Plan
};
UnitTimes estimate_unit_times(const Plan& plan, const Speeds& speeds, PlannedLengths& lengths);

}  // namespace turnbench
