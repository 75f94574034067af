#include "common/python_text.h"
#include "metrics/lcs.h"
#include "metrics/scorers.h"

namespace turnbench::scorers {

double rouge_l_recall(std::string_view prediction, std::string_view reference) {
  WordNumbers numbers;
  const std::vector<std::uint32_t> candidate = numbers.ids(python::split_words(prediction));
  const std::vector<std::uint32_t> target = numbers.ids(python::split_words(reference));
  refuse_oversize(candidate.size(), target.size(), "words", std::size_t{1} << 36);
  if (target.empty()) return 0;
  return static_cast<double>(lcs_length(candidate, target, numbers.size())) /
         static_cast<double>(target.size());
}

}  // namespace turnbench::scorers
