#include "common/error.h"
#include "common/python_text.h"
#include "common/text.h"
#include "metrics/scorers.h"

namespace turnbench::scorers {
namespace {

/// The digits after the first `mark` that digits follow.
std::string_view number_after(std::string_view mark, std::string_view reference) {
  for (std::size_t at = reference.find(mark); at != std::string_view::npos;
       at = reference.find(mark, at + 1)) {
    const std::string_view rest = reference.substr(at + mark.size());
    const std::vector<std::string_view> numbers = python::digit_runs(
        rest.substr(0, rest.find(mark)));  // not beyond the next mark: linear time
    if (!numbers.empty() && numbers.front().data() == rest.data()) return numbers.front();
  }
  throw input_error("found the reference \"{}\", expected \"{}\" and a number",
                    printable(shorten(reference, 60)), mark);
}

}  // namespace

double retrieval(std::string_view prediction, std::string_view reference) {
  return count(prediction, number_after("Paragraph ", reference));
}

double retrieval_zh(std::string_view prediction, std::string_view reference) {
  return count(prediction, number_after("段落", reference));
}

}  // namespace turnbench::scorers
