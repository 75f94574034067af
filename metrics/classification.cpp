#include <algorithm>

#include "common/error.h"
#include "common/python_text.h"
#include "metrics/scorers.h"

namespace turnbench::scorers {

double classification(std::string_view prediction, std::string_view reference, Texts classes) {
  if (classes.empty()) {
    throw input_error("found no classes, expected all labels of the task");
  }
  std::vector<std::string_view> found;
  for (const std::string& name : classes) {
    if (python::contains(prediction, name)) found.push_back(name);
  }
  // The official loop removes entries from the list while it iterates over it: `i` advances
  // although the next entry has moved to the current index, and the first equal entry is removed.
  for (std::size_t i = 0; i < found.size(); ++i) {
    const std::string_view name = found[i];
    if (name != reference && python::contains(reference, name)) {
      found.erase(std::find(found.begin(), found.end(), name));
    }
  }
  const bool listed = std::find(found.begin(), found.end(), reference) != found.end();
  return listed ? 1.0 / static_cast<double>(found.size()) : 0.0;
}

}  // namespace turnbench::scorers
