#include <optional>

#include "common/error.h"
#include "common/python_text.h"
#include "common/text.h"
#include "metrics/scorers.h"

namespace turnbench::scorers {
namespace {

std::optional<double> last_number(std::string_view text) {
  const std::vector<std::string> numbers =
      python::decimal_numbers(python::replace_all(text, ",", ""));
  return numbers.empty() ? std::nullopt : python::parse_float(numbers.back());
}

}  // namespace

double gsm8k(std::string_view prediction, std::string_view reference) {
  const std::optional<double> expected = last_number(reference);
  if (!expected) {
    throw input_error("found the reference \"{}\", expected one with a number",
                      printable(shorten(reference, 60)));
  }
  return last_number(prediction.substr(0, prediction.find("\nQuestion: "))) == expected ? 1 : 0;
}

}  // namespace turnbench::scorers
