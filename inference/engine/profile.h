#pragma once

#include <array>
#include <cstddef>
#include <vector>

#include "common/clock.h"
#include "inference/model/memory.h"

namespace turnbench {

/// The phases of a forward pass.
enum class Phase {
  kQkv,     ///< embedding, projections, RoPE, writing of keys and values
  kSelect,  ///< patterns and selections of policies, and retrievers
  kFetch,   ///< transfers between host and device, and waiting for them
  kCodec,   ///< decoding of stored rows, encoding of groups; rows are encoded one by one in kQkv
  kAttend,  ///< attention to the selected tokens
  kIndex,   ///< work of policies after the attention: eviction, indices
  kFfn,     ///< output projection and feed-forward network
  kLogits,
};
inline constexpr std::array kPhaseNames = {"qkv",    "select", "fetch", "codec",
                                           "attend", "index",  "ffn",   "logits"};

/// Seconds of each phase.
using PhaseSeconds = std::array<double, kPhaseNames.size()>;

/// The time that forward passes spend in each phase of each layer.  A phase within another one
/// interrupts it, so that the times add up.
class Profile {
 public:
  explicit Profile(int layers) : seconds_(static_cast<std::size_t>(layers)) {}

  /// Embedding and logits belong to the first and to the last layer.
  const std::vector<PhaseSeconds>& layers() const { return seconds_; }
  PhaseSeconds total() const;

  /// Measures a phase from its construction to its destruction; does nothing without a profile.
  /// Waits for the device at both ends, so that its work belongs to the phase that started it.
  class Zone {
   public:
    Zone(Profile* profile, Memory& memory, Phase phase, int layer);
    ~Zone();
    Zone(const Zone&) = delete;
    Zone& operator=(const Zone&) = delete;

   private:
    Profile* profile_;
    Memory& memory_;
    double* outer_ = nullptr;
  };

 private:
  /// Adds the time since the last switch to the current phase, and returns that phase.
  double* switch_to(double* seconds);

  std::vector<PhaseSeconds> seconds_;
  double* current_ = nullptr;  ///< null: between phases
  Clock::time_point since_;
};

}  // namespace turnbench
