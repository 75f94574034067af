#pragma once

#include <optional>
#include <string>

#include "metrics/scorers.h"

namespace turnbench::scorers {

// Labels of InfiniteBench's and SCBench's metrics.  All functions throw Error (input) if the label
// is missing or has another form.

/// The label at `index`.
const std::string& label_at(Texts labels, std::size_t index);

/// The label as a canonical integer (see `parse_int`).
std::string integer_label(Texts labels, std::size_t index);

struct NumberLabel {
  std::optional<std::string> integer;  ///< canonical form, if the label is written as an integer
  double value = 0;
};

/// The label as a number.
NumberLabel number_label(Texts labels, std::size_t index);

}  // namespace turnbench::scorers
