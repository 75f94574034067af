#include <algorithm>
#include <vector>

#include "common/python_text.h"
#include "common/text.h"
#include "metrics/labels.h"
#include "metrics/normalize.h"
#include "metrics/porter_stemmer.h"
#include "metrics/scorers.h"
#include "metrics/words.h"

namespace turnbench::scorers {
namespace {

std::vector<std::string> stems(std::string_view text) {
  std::vector<std::string> out;
  const std::string normalized = normalize_locomo(text);
  for (const std::string_view word : python::split_words(normalized))
    out.push_back(porter_stem(word));
  return out;
}

double stem_f1(const std::vector<std::string>& prediction,
               const std::vector<std::string>& reference) {
  return token_f1(std::vector<std::string_view>(prediction.begin(), prediction.end()),
                  std::vector<std::string_view>(reference.begin(), reference.end()));
}

/// The stems of each part between commas.
std::vector<std::vector<std::string>> stems_of_parts(std::string_view text) {
  std::vector<std::vector<std::string>> out;
  for (const std::string& part : split(text, ",")) out.push_back(stems(part));
  return out;
}

}  // namespace

double locomo_f1(std::string_view prediction, std::string_view reference) {
  return stem_f1(stems(prediction), stems(reference));
}

double locomo_multi_hop(std::string_view prediction, std::string_view reference) {
  const auto predicted = stems_of_parts(prediction), expected = stems_of_parts(reference);
  check_comparison_size(predicted.size(), expected.size(), "parts", std::size_t{1} << 22);
  double sum = 0;
  for (const auto& answer : expected) {
    double best = 0;
    for (const auto& part : predicted) best = std::max(best, stem_f1(part, answer));
    sum += best;
  }
  return sum / static_cast<double>(expected.size());
}

double locomo_adversarial(std::string_view prediction, Texts references) {
  label_at(references, 0);
  const std::string text = python::lower(python::strip(prediction));
  const std::size_t length = to_code_points(text).size();
  // The official evaluation replaces an answer of this length by the option that it names.
  if (references.size() > 1 && (length == 1 || length == 3)) {
    const std::string_view option = text == "a" || text == "(a)" ? "(a)" : "(b)";
    return std::find(references.begin() + 1, references.end(), option) != references.end() ? 1 : 0;
  }
  return python::contains(text, "no information available") ||
                 python::contains(text, "not mentioned")
             ? 1
             : 0;
}

}  // namespace turnbench::scorers
