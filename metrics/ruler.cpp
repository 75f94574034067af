#include <algorithm>

#include "common/python_text.h"
#include "metrics/labels.h"
#include "metrics/scorers.h"

namespace turnbench::scorers {
namespace {

/// The number of references that occur in the prediction, regardless of case, after RULER's
/// cleaning.
double occurring(std::string_view prediction, Texts references) {
  label_at(references, 0);
  std::string text(python::strip(prediction));
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < 0x20) c = '\n';
  }
  text = python::lower(python::strip(text));
  return static_cast<double>(
      std::count_if(references.begin(), references.end(), [&](std::string_view reference) {
        return python::contains(text, python::lower(reference));
      }));
}

}  // namespace

double ruler_match_all(std::string_view prediction, Texts references) {
  return occurring(prediction, references) / static_cast<double>(references.size());
}

double ruler_match_part(std::string_view prediction, Texts references) {
  return occurring(prediction, references) > 0 ? 1 : 0;
}

}  // namespace turnbench::scorers
