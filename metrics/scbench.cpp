#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "common/python_text.h"
#include "metrics/labels.h"
#include "metrics/scorers.h"

namespace turnbench::scorers {

double scbench_kv(std::string_view prediction, Texts labels) {
  return python::contains(prediction, label_at(labels, 0)) ? 1 : 0;
}

double scbench_qa(std::string_view prediction, Texts labels) {
  const std::string text = python::upper(python::strip(prediction));
  const auto stated = [&](std::string_view label) {
    return python::contains(text, python::upper(label));
  };
  return std::any_of(labels.begin(), labels.end(), stated) ? 1 : 0;
}

double scbench_math_find(std::string_view prediction, Texts labels) {
  const NumberLabel label = number_label(labels, 0);
  const std::optional<std::string> number = python::first_number(prediction);
  if (!number) return 0;
  const double value = *python::parse_float(*number);
  // int(float(number)), compared exactly; infinity raises an exception in the official scorer.
  const bool equal = label.integer ? fmt::format("{:.0f}", std::trunc(value)) == *label.integer
                                   : value == label.value;
  return equal ? 1 : 0;
}

double scbench_vt(std::string_view prediction, Texts labels) {
  label_at(labels, 0);
  const std::string text = python::lower(prediction);
  double found = 0;
  for (const std::string& label : labels) {
    if (python::contains(text, python::lower(label))) ++found;
  }
  return python::round_decimal(found / static_cast<double>(labels.size()), 2);
}

}  // namespace turnbench::scorers
