#include "inference/engine/profile.h"

#include <exception>
#include <utility>

namespace turnbench {

PhaseSeconds Profile::total() const {
  PhaseSeconds out = {};
  for (const PhaseSeconds& layer : seconds_)
    for (std::size_t i = 0; i < out.size(); ++i) out[i] += layer[i];
  return out;
}

double* Profile::switch_to(double* seconds) {
  const auto now = Clock::now();
  if (current_ != nullptr) *current_ += std::chrono::duration<double>(now - since_).count();
  since_ = now;
  return std::exchange(current_, seconds);
}

Profile::Zone::Zone(Profile* profile, Memory& memory, Phase phase, int layer)
    : profile_(profile), memory_(memory) {
  if (profile_ == nullptr) return;
  memory_.synchronize();
  outer_ = profile_->switch_to(&profile_->seconds_[layer][static_cast<std::size_t>(phase)]);
}

Profile::Zone::~Zone() {
  if (profile_ == nullptr) return;
  try {
    memory_.synchronize();
  } catch (const std::exception&) {
    // The next synchronization reports the same error again.
  }
  profile_->switch_to(outer_);
}

}  // namespace turnbench
