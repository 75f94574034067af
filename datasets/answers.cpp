#include "datasets/answers.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "common/error.h"

namespace turnbench {
namespace {

constexpr std::string_view kLetters = "ABCD";

/// A text, or a number in its digits.
std::string text_of(const JsonView& view) {
  if (view.is_string()) return view.as_string();
  if (!view.is_number()) view.fail("a text or a number");
  return view.json().dump();
}

}  // namespace

std::vector<std::string> parse_references(const JsonView& answer) {
  std::vector<std::string> out;
  if (!answer.is_array()) return {text_of(answer)};
  for (const JsonView& item : answer.items()) out.push_back(text_of(item));
  if (out.empty()) answer.fail("at least one answer");
  return out;
}

void add_options(Turn& turn, const JsonView& record) {
  const std::vector<std::string> options = record.at("options").as_strings();
  if (options.size() != kLetters.size()) record.at("options").fail("four options");
  const auto right = std::find(options.begin(), options.end(), turn.references.front());
  if (right == options.end()) record.at("answer").fail("one of the options");
  const auto index = static_cast<std::size_t>(right - options.begin());
  turn.references = {*right, std::string(1, kLetters[index])};
  for (std::size_t i = 0; i < options.size(); ++i) {
    turn.question += fmt::format("\n{}. {}", kLetters[i], options[i]);
  }
}

}  // namespace turnbench
