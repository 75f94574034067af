#include <algorithm>

#include "common/error.h"
#include "common/text.h"
#include "metrics/python_text.h"
#include "metrics/scorers.h"

namespace turnbench::scorers {
namespace {

constexpr std::string_view kLetters = "ABCD";
constexpr std::string_view kGuess = "A";  // where an answer names no letter

bool is_letter(char c) {
  return kLetters.find(c) != kLetters.npos;
}

/// The letters in `named`, each once, in their order.
std::string letters_in(std::string_view named) {
  std::string out;
  for (char c : kLetters) {
    if (named.find(c) != named.npos) out += c;
  }
  return out;
}

/// The letters that stand before white space, a full stop or a closing bracket.
std::string marked_letters(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    std::size_t next = i + 1;
    if (!is_letter(text[i]) || next == text.size()) continue;
    const char32_t c = next_code_point(text, next);
    if (c == '.' || c == ')' || python::is_space(c)) out += text[i];
  }
  return out;
}

/// One for the letters of the reference, a quarter for some of them.
double score_letters(std::string_view given, std::string_view reference) {
  if (reference.empty() || !std::all_of(reference.begin(), reference.end(), is_letter)) {
    throw input_error("found the reference \"{}\", expected letters from A to D",
                      printable(shorten(reference, 60)));
  }
  if (given == reference) return 1;
  const auto expected = [&](char c) { return reference.find(c) != reference.npos; };
  return std::all_of(given.begin(), given.end(), expected) ? 0.25 : 0;
}

}  // namespace

double leval_letter(std::string_view prediction, std::string_view reference) {
  if (kLetters.find(prediction) != kLetters.npos) return score_letters(prediction, reference);
  const std::size_t first = prediction.find_first_of(kLetters);
  return score_letters(first == prediction.npos ? kGuess : prediction.substr(first, 1), reference);
}

double leval_letters(std::string_view prediction, std::string_view reference) {
  if (kLetters.find(prediction) != kLetters.npos) return score_letters(prediction, reference);
  const std::size_t end = std::min(prediction.find_first_not_of(kLetters), prediction.size());
  std::string named(prediction.substr(0, end));
  if (named.size() < 2) {
    const std::string_view rest = prediction.substr(end);
    named += marked_letters(rest.substr(0, rest.find("Question")));
  }
  return score_letters(named.empty() ? std::string(kGuess) : letters_in(named), reference);
}

}  // namespace turnbench::scorers
