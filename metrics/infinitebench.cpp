#include <algorithm>
#include <array>
#include <optional>

#include "common/python_text.h"
#include "metrics/labels.h"
#include "metrics/scorers.h"

namespace turnbench::scorers {
namespace {

std::string blank_out(std::string_view text, std::string_view characters) {
  std::string out(text);
  for (char& c : out) {
    if (characters.find(c) != std::string_view::npos) c = ' ';
  }
  return out;
}

std::string collapse_spaces(std::string_view text) {
  std::string out;
  for (char c : text) {
    if (c != ' ' || out.empty() || out.back() != ' ') out += c;
  }
  return out;
}

/// The text after the first of `prefixes` that occurs, less one character (the space); nullopt if
/// no prefix occurs.  An answer that ends with the prefix yields "".
std::optional<std::string_view> after_prefix(std::string_view text,
                                             std::span<const std::string_view> prefixes) {
  for (std::string_view prefix : prefixes) {
    const std::size_t at = text.find(prefix);
    if (at == std::string_view::npos) continue;
    std::string_view rest = text.substr(at + prefix.size());
    if (!rest.empty()) rest.remove_prefix(python::first_character(rest).size());
    return rest;
  }
  return std::nullopt;
}

}  // namespace

double infinitebench_first_number(std::string_view prediction, Texts labels) {
  const std::vector<std::string_view> numbers = python::ascii_digit_runs(prediction);
  const std::string_view first = numbers.empty() ? std::string_view() : numbers.front();
  return first == label_at(labels, 0) ? 1 : 0;
}

double infinitebench_kv_retrieval(std::string_view prediction, Texts labels) {
  const std::string text = blank_out(prediction, "\n:\"'.,?!{}");
  const std::vector<std::string_view> words = python::split_words(text);
  const std::string& label = label_at(labels, 0);
  return std::find(words.begin(), words.end(), label) != words.end() ? 1 : 0;
}

double infinitebench_dialogue_qa(std::string_view prediction, Texts labels) {
  return infinitebench_kv_retrieval(python::upper(prediction), labels);
}

double infinitebench_choice(std::string_view prediction, Texts labels) {
  constexpr std::array<std::string_view, 4> kPrefixes = {"answer is:", "answer:", "answer is",
                                                         "option is"};
  constexpr std::string_view kLetters = "ABCD";
  const auto is_label = [&](std::string_view text) {
    return std::find(labels.begin(), labels.end(), text) != labels.end() ? 1.0 : 0.0;
  };
  const std::string_view answer = python::strip(prediction);
  if (answer.empty()) return 0;
  if (kLetters.find(answer.front()) != kLetters.npos) return is_label(answer.substr(0, 1));
  if (is_label(answer) == 1) return 1;
  const std::string text = collapse_spaces(blank_out(answer, "\n\"'.,?!{}"));
  if (const auto rest = after_prefix(text, kPrefixes)) {
    const auto begins = [&](std::string_view label) { return rest->starts_with(label); };
    return std::any_of(labels.begin(), labels.end(), begins) ? 1 : 0;
  }
  for (std::string_view word : python::split_words(text)) {
    if (kLetters.find(word) != kLetters.npos) return is_label(word);  // "A", but also "BC"
  }
  return 0;
}

double infinitebench_math_find(std::string_view prediction, Texts labels) {
  const NumberLabel label = number_label(labels, 0);
  const std::optional<std::string> number = python::first_number(prediction);
  if (!number) return 0;
  // For a whole label the official scorer throws an exception at "3.0"; here it does not match.
  return (label.integer ? python::parse_int(*number) == label.integer
                        : python::parse_float(*number) == label.value)
             ? 1
             : 0;
}

double infinitebench_math_calc(std::string_view prediction, Texts labels) {
  const std::vector<std::string_view> numbers = python::ascii_digit_runs(prediction);
  const std::size_t most = std::min(numbers.size(), labels.size());
  std::size_t right = 0;
  while (right < most && python::parse_int(numbers[right]) == integer_label(labels, right)) ++right;
  return labels.empty() ? 0 : static_cast<double>(right) / static_cast<double>(labels.size());
}

double infinitebench_code_run(std::string_view prediction, Texts labels) {
  const std::string text = blank_out(prediction, "\n.`'\":");
  const std::vector<std::string_view> words = python::split_words(text);
  return !words.empty() && python::parse_int(words.back()) == integer_label(labels, 0) ? 1 : 0;
}

double infinitebench_code_debug(std::string_view prediction, Texts labels) {
  constexpr std::array<std::string_view, 3> kPrefixes = {"answer is:", "is:", "answer:"};
  const std::string& name = label_at(labels, 0);
  const std::string& letter = label_at(labels, 1);
  const std::string_view answer = python::strip(prediction);
  if (answer.starts_with(letter + ".") || answer.starts_with(letter + ":")) return 1;
  std::string text = blank_out(answer, "\n`'\"-*");
  text =
      collapse_spaces(python::replace_all(python::replace_all(text, "Option", " "), "option", " "));
  const auto rest = after_prefix(text, kPrefixes);
  return rest && (rest->starts_with(letter) || rest->starts_with(name)) ? 1 : 0;
}

}  // namespace turnbench::scorers
