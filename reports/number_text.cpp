#include "reports/number_text.h"

#include <fmt/format.h>

namespace turnbench {

std::string interval_text(const Interval& interval, int digits, bool sign) {
  return sign ? fmt::format("[{:+.{}f}, {:+.{}f}]", interval.low, digits, interval.high, digits)
              : fmt::format("[{:.{}f}, {:.{}f}]", interval.low, digits, interval.high, digits);
}

std::string estimate_text(const Estimate& estimate, int digits, bool sign) {
  std::string out = sign ? fmt::format("{:+.{}f}", estimate.mean, digits)
                         : fmt::format("{:.{}f}", estimate.mean, digits);
  if (estimate.interval) out += " " + interval_text(*estimate.interval, digits, sign);
  return out;
}

std::string p_text(double p) {
  return p < .0005 ? "p <0.001" : fmt::format("p {:.3f}", p);
}

std::string tests_text(const Difference& difference) {
  std::string out = p_text(difference.against_zero.adjusted);
  if (difference.equivalence) out += ", equivalence " + p_text(*difference.equivalence);
  return out;
}

}  // namespace turnbench
