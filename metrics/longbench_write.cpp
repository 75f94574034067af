#include <algorithm>

#include "common/error.h"
#include "common/python_text.h"
#include "common/text.h"
#include "metrics/scorers.h"

namespace turnbench::scorers {

std::size_t longbench_write_words(std::string_view text) {
  std::size_t words = 0;
  bool inside = false,
       english = false;  // state of a run of word characters: inside one; only A-Z and a-z so far
  for (std::size_t i = 0; i < text.size();) {
    const char32_t c = next_code_point(text, i);
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    const bool word = python::is_word(c);
    if (!word && inside && english) ++words;
    english = letter && (!inside || english);
    inside = word;
    if (c >= 0x4E00 && c <= 0x9FFF) ++words;
  }
  return words + (inside && english ? 1 : 0);
}

double longbench_write_length(std::string_view prediction, std::string_view reference) {
  const std::optional<double> wanted = python::parse_float(reference);
  if (!wanted || !(*wanted > 0)) {
    throw input_error("found the reference \"{}\", expected a length in words",
                      printable(shorten(reference, 60)));
  }
  const auto written = static_cast<double>(longbench_write_words(prediction));
  if (written == 0) return 0;
  const double score =
      written > *wanted ? 1 - (written / *wanted - 1) / 3 : 1 - (*wanted / written - 1) / 2;
  return std::max(0.0, score);
}

}  // namespace turnbench::scorers
