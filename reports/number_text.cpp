#include "reports/number_text.h"

#include <fmt/format.h>

#include <algorithm>

namespace turnbench {

std::string number_text(double value, int digits, bool sign) {
  std::string out = fmt::format("{:.{}f}", value, digits);
  if (out[0] == '-' && out.find_first_not_of("-0.") == std::string::npos) out.erase(0, 1);
  if (sign && out[0] != '-') out.insert(0, 1, '+');
  return out;
}

std::string published_text(double value, int digits, bool sign) {
  constexpr int kDigits = 2;
  return number_text(value, std::max(digits, kDigits), sign);
}

std::string interval_text(const Interval& interval, int digits, bool sign) {
  return fmt::format("[{}, {}]", number_text(interval.low, digits, sign),
                     number_text(interval.high, digits, sign));
}

std::string estimate_text(const Estimate& estimate, int digits, bool sign) {
  std::string out = number_text(estimate.mean, digits, sign);
  if (estimate.interval) out += " " + interval_text(*estimate.interval, digits, sign);
  return out;
}

std::string p_text(double p) {
  return p < .0005 ? "p <0.001" : fmt::format("p {:.3f}", p);
}

std::string equivalence_text(const std::optional<double>& p) {
  return p ? ", equivalence " + p_text(*p) : "";
}

std::string tests_text(const Difference& difference) {
  return p_text(difference.against_zero.adjusted) + equivalence_text(difference.equivalence);
}

}  // namespace turnbench
