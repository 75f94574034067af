#include "common/python_text.h"
#include "metrics/normalize.h"
#include "metrics/scorers.h"

namespace turnbench::scorers {
namespace {

std::string stated_label(const std::string& prediction, Texts classes) {
  std::string label;
  std::size_t first = std::string::npos;
  for (const std::string& name : classes) {
    std::string normalized = normalize_english(name);
    if (normalized.empty()) continue;
    const std::size_t place = python::find(prediction, normalized);
    if (place == std::string::npos) continue;
    if (place < first || (place == first && normalized.size() > label.size())) {
      first = place;
      label = std::move(normalized);
    }
  }
  return label;
}

}  // namespace

double accuracy(std::string_view prediction, std::string_view reference, Texts classes) {
  const std::string predicted = normalize_english(prediction);
  const std::string expected = normalize_english(reference);
  if (classes.empty()) return predicted == expected ? 1 : 0;
  const std::string label = stated_label(predicted, classes);
  return !label.empty() && label == expected ? 1 : 0;
}

}  // namespace turnbench::scorers
