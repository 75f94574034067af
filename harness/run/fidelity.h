#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "common/mean.h"
#include "inference/engine/engine.h"
#include "methods/method.h"

namespace turnbench {

// Divergence of a method from full attention, measured token by token along a given answer (teacher
// forcing).  It shows changes that scores hide, because many answers have the same score.

/// The metrics, in the order of FidelityValues.  Each is a mean over the tokens of an answer.
constexpr std::array<std::string_view, 4> kFidelityMetrics = {"kl", "agreement", "delta_logprob",
                                                              "answer_nll"};
/// KL(full || method) in nats; 1 if both have the same greedy token, else 0; the token's log
/// probability minus that of full attention; the negative log probability of the token.
using FidelityValues = std::array<double, kFidelityMetrics.size()>;
bool is_fidelity_metric(std::string_view name);

/// True if a method computes exact full attention, which is the reference of the comparison.
bool is_exact(const Method& method);

/// Full attention's prediction of one token, in double precision.
class FullPrediction {
 public:
  /// @throws Error (runtime) if a logit is not a number; so does `compare`.
  explicit FullPrediction(std::span<const float> logits);

  /// Compares a method's prediction of the same token.  Equal logits give exactly 0, 1, 0 and the
  /// same negative log likelihood.
  FidelityValues compare(std::span<const float> logits, int token) const;

 private:
  std::vector<double> probabilities_, log_probabilities_;
  int greedy_ = 0;
};

/// The means over the tokens of an answer.
class FidelityMeans {
 public:
  void add(const FidelityValues& values);
  bool empty() const { return means_.front().count == 0; }
  FidelityValues values() const;

 private:
  std::array<Mean, kFidelityMetrics.size()> means_;
};

/// A sequence at the end of its prompt, and the answer along which it is decoded.
struct ForcedSequence {
  Sequence sequence;
  std::vector<float> logits;  ///< initially those of the prompt's last row
  const DialogueView* dialogue = nullptr;
  bool evict = true;  ///< as in Pass
  std::span<const int> answer;
};

/// Decodes the given answers as one batch.  Calls `visit` for each token before it is read, when
/// `logits` of every sequence with an answer of more than `token` tokens predict it.  The last
/// token of an answer is predicted but not read.  Returns the number of tokens read.  The logits
/// are bit-identical to those of free decoding along the same tokens.
std::size_t decode_forced(Engine& engine, std::span<ForcedSequence> sequences,
                          const std::function<void(std::size_t token)>& visit);

}  // namespace turnbench
