#include "metrics/normalize.h"
#include "metrics/scorers.h"

namespace turnbench::scorers {

double exact_match(std::string_view prediction, std::string_view reference) {
  return normalize_english(prediction) == normalize_english(reference) ? 1 : 0;
}

}  // namespace turnbench::scorers
