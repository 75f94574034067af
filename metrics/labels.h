#pragma once

#include <optional>
#include <string>

#include "metrics/scorers.h"

namespace turnbench::scorers {

/// The label at `index`; refuses a task with fewer labels.
const std::string& label_at(Texts labels, std::size_t index);

/// A label as a canonical whole number (see `parse_int`); refuses anything else.
std::string integer_label(Texts labels, std::size_t index);

struct NumberLabel {
  std::optional<std::string> integer;  ///< canonical, if the label is written as a whole number
  double value = 0;
};

/// A label that is a number; refuses anything else.
NumberLabel number_label(Texts labels, std::size_t index);

}  // namespace turnbench::scorers
