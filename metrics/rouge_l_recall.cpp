#include "common/python_text.h"
#include "metrics/lcs.h"
#include "metrics/scorers.h"

namespace turnbench::scorers {

double rouge_l_recall(std::string_view prediction, std::string_view reference) {
  WordIds ids;
  const std::vector<std::uint32_t> candidate = ids.ids(python::split_words(prediction));
  const std::vector<std::uint32_t> target = ids.ids(python::split_words(reference));
  check_comparison_size(candidate.size(), target.size(), "words", std::size_t{1} << 36);
  if (target.empty()) return 0;
  return static_cast<double>(lcs_length(candidate, target, ids.size())) /
         static_cast<double>(target.size());
}

}  // namespace turnbench::scorers
