#include <algorithm>
#include <optional>

#include "common/error.h"
#include "common/python_text.h"
#include "common/text.h"
#include "metrics/normalize.h"
#include "metrics/scorers.h"

namespace turnbench::scorers {
namespace {

constexpr std::string_view kLetters = "ABCD";
constexpr std::string_view kGuess = "A";  // for answers without a letter

bool is_letter(char c) {
  return kLetters.find(c) != kLetters.npos;
}

/// The distinct letters in `named`, in their order.
std::string letters_in(std::string_view named) {
  std::string out;
  for (char c : kLetters) {
    if (named.find(c) != named.npos) out += c;
  }
  return out;
}

/// The letters before white space, a full stop or a closing bracket.
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

/// 1 for all letters of the reference, 0.25 for some of them.
double compare_letters(std::string_view given, std::string_view reference) {
  if (given == reference) return 1;
  const auto expected = [&](char c) { return reference.find(c) != reference.npos; };
  return std::all_of(given.begin(), given.end(), expected) ? 0.25 : 0;
}

/// Compares the letters that a prediction names; or the prediction itself if it is a substring of
/// "ABCD".
double score_letters(std::string_view prediction, std::string_view named,
                     std::string_view reference) {
  if (reference.empty() || !std::all_of(reference.begin(), reference.end(), is_letter)) {
    throw input_error("found the reference \"{}\", expected letters from A to D",
                      printable(shorten(reference, 60)));
  }
  if (kLetters.find(prediction) != kLetters.npos) return compare_letters(prediction, reference);
  return compare_letters(named.empty() ? kGuess : named, reference);
}

/// The first line with more than one character; the whole text if there is none.
std::string_view first_line(std::string_view text) {
  for (std::string_view rest = text; !rest.empty();) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    if (!line.empty() && line.size() > python::first_character(line).size()) return line;
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
  }
  return text;
}

/// The output of code as `process_gt_code` normalizes it: runs of white space as one space, no
/// commas, apostrophes, backslashes and ".0", and no spaces between brackets.
std::string plain_code(std::string_view text) {
  std::string out;
  bool space = false;
  for (std::size_t i = 0; i < text.size();) {
    const char32_t c = next_code_point(text, i);
    if (python::is_space(c)) {
      if (!space) out += ' ';
      space = true;
      continue;
    }
    append_utf8(out, c);
    space = false;
  }
  constexpr std::pair<std::string_view, std::string_view> kChanges[] = {
      {",", ""}, {"'", ""}, {"\\", ""}, {".0", ""}, {"] [", "]["}, {"[ [", "[["}, {"] ]", "]]"}};
  for (const auto& [from, to] : kChanges) out = python::replace_all(out, from, to);
  return out;
}

/// `re.split(r"\s+", text)` if all white space is spaces.
std::vector<std::string> split_at_spaces(const std::string& text) {
  std::vector<std::string> out = {""};
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != ' ') {
      out.back() += text[i];
    } else if (i == 0 || text[i - 1] != ' ') {
      out.emplace_back();
    }
  }
  return out;
}

/// The output that the answer states: the words after "the final output", or its last words.
std::string stated_output(std::string_view prediction, std::size_t words) {
  constexpr std::string_view kMark = "the final output";
  std::string text = plain_code(prediction);
  for (std::string_view filler :
       {"will be", "of the code", "is", "would be", "the value of", "the result of", "printed"}) {
    text = python::replace_all(text, filler, "");
  }
  const std::size_t mark = text.rfind(kMark);
  std::vector<std::string> all =
      split_at_spaces(mark == text.npos ? text : text.substr(mark + kMark.size()));
  const std::size_t kept = std::min(all.size(), words);
  const auto first =
      mark == text.npos ? all.end() - static_cast<std::ptrdiff_t>(kept) : all.begin();
  return join(std::vector<std::string>(first, first + static_cast<std::ptrdiff_t>(kept)), " ");
}

}  // namespace

double leval_letter(std::string_view prediction, std::string_view reference) {
  const std::size_t first = std::min(prediction.find_first_of(kLetters), prediction.size());
  return score_letters(prediction, prediction.substr(first, 1), reference);
}

double leval_letters(std::string_view prediction, std::string_view reference) {
  std::string named(prediction.substr(0, prediction.find_first_not_of(kLetters)));
  if (named.size() < 2) {
    const std::string_view rest = prediction.substr(named.size());
    named += marked_letters(rest.substr(0, rest.find("Question")));
  }
  return score_letters(prediction, letters_in(named), reference);
}

double leval_stated(std::string_view prediction, std::string_view reference) {
  const std::string letters = normalize_english_cased(reference);
  if (std::all_of(letters.begin(), letters.end(), is_letter)) {
    return compare_letters(normalize_english_cased(prediction), letters);
  }
  const auto number = [](std::string_view text) {
    return python::parse_float(python::strip(text));
  };
  const std::optional<double> stated = number(prediction), expected = number(reference);
  if (stated && expected) return *stated == *expected ? 1 : 0;
  const auto comparable = [](std::string_view text) {
    return python::replace_all(python::lower(text), " ", "");
  };
  return python::contains(comparable(first_line(prediction)), comparable(reference)) ? 1 : 0;
}

double leval_code(std::string_view prediction, std::string_view reference) {
  const std::size_t words = python::split_words(reference).size();
  return leval_stated(stated_output(prediction, words + 3), plain_code(reference));
}

}  // namespace turnbench::scorers
