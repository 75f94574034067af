#include "common/python_text.h"
#include "metrics/scorers.h"

namespace turnbench::scorers {
namespace {

/// The letter after "The correct answer is", first in parentheses, else without; "" if none.
std::string_view stated_letter(std::string_view text) {
  constexpr std::string_view kStatement = "The correct answer is ";
  std::string_view bare;
  for (std::size_t at = text.find(kStatement); at != text.npos;
       at = text.find(kStatement, at + 1)) {
    const std::string_view rest = text.substr(at + kStatement.size());
    const auto letter = [&](std::size_t i) {
      return i < rest.size() && rest[i] >= 'A' && rest[i] <= 'D';
    };
    if (rest.starts_with('(') && letter(1) && rest.substr(2).starts_with(')'))
      return rest.substr(1, 1);
    if (bare.empty() && letter(0)) bare = rest.substr(0, 1);
  }
  return bare;
}

}  // namespace

double longbench_v2(std::string_view prediction, std::string_view reference) {
  const std::string text = python::replace_all(prediction, "*", "");
  return stated_letter(text) == reference ? 1 : 0;
}

}  // namespace turnbench::scorers
