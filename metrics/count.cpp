#include <algorithm>

#include "common/python_text.h"
#include "metrics/scorers.h"

namespace turnbench::scorers {

double count(std::string_view prediction, std::string_view reference) {
  const std::vector<std::string_view> numbers = python::digit_runs(prediction);
  if (numbers.empty()) return 0;
  return static_cast<double>(std::count(numbers.begin(), numbers.end(), reference)) /
         static_cast<double>(numbers.size());
}

}  // namespace turnbench::scorers
