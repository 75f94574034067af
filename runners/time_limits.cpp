#include "runners/time_limits.h"

#include <algorithm>
#include <utility>

#include "common/error.h"
#include "harness/experiment/shards.h"

namespace turnbench {
namespace {

constexpr std::size_t kMostEnded = 64;  // units whose speed is considered
// Seconds for 10^6 operations, until a unit has ended: 1 GFLOP/s.
constexpr double kSlowestSpeed = 1e-3;

}  // namespace

void TimeLimits::add_ended(HeldUnit unit) {
  const double seconds = seconds_since(unit.since);
  ended_.push_back({std::move(unit), seconds});
  if (ended_.size() > kMostEnded) ended_.pop_front();
}

std::optional<double> TimeLimits::exceeded(std::map<std::string, HeldUnit>& held) {
  double longest = 0;
  for (const auto& [key, unit] : held) longest = std::max(longest, seconds_since(unit.since));
  const auto least = static_cast<double>(options_.least_time_limit.count());
  if (longest <= least * static_cast<double>(held.size())) return std::nullopt;
  double limit = 0;
  for (auto& [key, unit] : held) limit += limit_of(unit);
  return longest > limit ? std::optional(limit) : std::nullopt;
}

double TimeLimits::limit_of(HeldUnit& held) {
  if (!held.limit_seconds) {
    held.limit_seconds = static_cast<double>(options_.least_time_limit.count()) +
                         options_.time_tolerance * cost_of(held) * slowest_speed();
  }
  return *held.limit_seconds;
}

double TimeLimits::slowest_speed() {
  if (ended_.empty()) return kSlowestSpeed;
  double slowest = 0;
  for (const Ended& ended : ended_)
    slowest = std::max(slowest, ended.seconds / cost_of(ended.unit));
  return slowest;
}

double TimeLimits::cost_of(const HeldUnit& held) {
  try {
    return static_cast<double>(held.unit ? relative_cost(plan_, *held.unit, lengths_)
                                         : relative_cost(plan_, *held.probes, lengths_));
  } catch (const Error&) {  // a prompt that cannot be made: the unit will fail
    return 1;
  }
}

}  // namespace turnbench
