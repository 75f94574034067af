#pragma once

#include <string>

#include "reports/estimate.h"

namespace turnbench {

/// "70.6"; with `sign` "+70.6".  Values that round to zero have no minus sign.
std::string number_text(double value, int digits, bool sign = false);

/// A paper's number, or with `sign` the difference to it, next to numbers with `digits` decimals:
/// papers print two for scores.
std::string published_text(double value, int digits, bool sign = false);

/// ", equivalence p 0.012"; "" if there is no p.
std::string equivalence_text(const std::optional<double>& p);

/// "[66.1, 75.1]"; with `sign` "[-31.9, +0.2]".
std::string interval_text(const Interval& interval, int digits, bool sign = false);

/// "70.6 [66.1, 75.1]"; "70.6" if there is no interval.
std::string estimate_text(const Estimate& estimate, int digits, bool sign = false);

/// "p 0.012", "p <0.001".
std::string p_text(double p);

/// The tests of a difference: "p 0.012", or with a margin "p 0.012, equivalence p 0.630".
std::string tests_text(const Difference& difference);

}  // namespace turnbench
