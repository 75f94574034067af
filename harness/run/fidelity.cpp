#include "harness/run/fidelity.h"

#include <algorithm>
#include <cmath>

#include "common/error.h"
#include "inference/engine/sampler.h"

namespace turnbench {
namespace {

constexpr std::size_t kForcedBatch = 64;  // sequences that decode in one forward pass

/// The logarithm of the softmax denominator.
double log_sum_exp(std::span<const float> logits) {
  const double top = static_cast<double>(logits[argmax(logits)]);
  double sum = 0;
  for (float x : logits) sum += std::exp(static_cast<double>(x) - top);
  if (std::isnan(sum))
    throw runtime_error("logits: found a value that is not a number, expected numbers");
  return top + std::log(sum);
}

}  // namespace

bool is_exact(const Method& method) {
  const Policies& p = method.policies();
  return !p.prefill && !p.eviction && !p.selection && !p.codec;
}

bool is_fidelity_metric(std::string_view name) {
  return std::find(kFidelityMetrics.begin(), kFidelityMetrics.end(), name) !=
         kFidelityMetrics.end();
}

FullPrediction::FullPrediction(std::span<const float> logits) : greedy_(argmax(logits)) {
  const double log_sum = log_sum_exp(logits);
  for (float x : logits) {
    log_probabilities_.push_back(static_cast<double>(x) - log_sum);
    probabilities_.push_back(std::exp(log_probabilities_.back()));
  }
}

FidelityValues FullPrediction::compare(std::span<const float> logits, int token) const {
  const double log_sum = log_sum_exp(logits);
  const auto own = [&](std::size_t i) { return static_cast<double>(logits[i]) - log_sum; };
  double kl = 0;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    if (probabilities_[i] > 0) kl += probabilities_[i] * (log_probabilities_[i] - own(i));
  }
  const auto at = static_cast<std::size_t>(token);
  // A divergence is never negative, but rounding errors may be.
  return {std::max(0.0, kl), argmax(logits) == greedy_ ? 1.0 : 0.0,
          own(at) - log_probabilities_[at], -own(at)};
}

void FidelityMeans::add(const FidelityValues& values) {
  for (std::size_t i = 0; i < values.size(); ++i) means_[i].add(values[i]);
}

FidelityValues FidelityMeans::values() const {
  FidelityValues out{};
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = means_[i].value();
  return out;
}

std::size_t decode_forced(Engine& engine, std::span<ForcedSequence> sequences,
                          const std::function<void(std::size_t token)>& visit) {
  std::size_t longest = 0, read = 0;
  for (const ForcedSequence& s : sequences) longest = std::max(longest, s.answer.size());
  for (std::size_t token = 0; token < longest; ++token) {
    visit(token);
    std::vector<ForcedSequence*> reading;
    for (ForcedSequence& s : sequences) {
      if (token + 1 < s.answer.size()) reading.push_back(&s);
    }
    read += reading.size();
    for (std::size_t first = 0; first < reading.size(); first += kForcedBatch) {
      const std::span<ForcedSequence*> batch =
          std::span(reading).subspan(first, std::min(kForcedBatch, reading.size() - first));
      std::vector<Pass> passes;
      for (ForcedSequence* s : batch) {
        passes.push_back({.sequence = &s->sequence,
                          .tokens = s->answer.subspan(token, 1),
                          .kind = Pass::Kind::kDecode,
                          .dialogue = s->dialogue,
                          .evict = s->evict});
      }
      std::vector<std::vector<float>> logits = engine.forward(passes);
      for (std::size_t i = 0; i < batch.size(); ++i) batch[i]->logits = std::move(logits[i]);
    }
  }
  return read;
}

}  // namespace turnbench
