#include "datasets/gsm8k.h"

#include "common/error.h"
#include "common/text.h"
#include "datasets/jsonl.h"
#include "datasets/source_file.h"

namespace turnbench {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kMark = "#### ";
constexpr std::string_view kSteps = "Let's think step by step";
constexpr int kGsm8kAnswerTokens = 400;

std::vector<Paragraph> read_examples(const fs::path& file) {
  std::vector<Paragraph> out;
  for (const std::string& text : split("\n" + read_utf8_file(file), "\nQuestion: ")) {
    if (trim(text).empty()) continue;
    out.push_back({fmt::format("example-{}", out.size() + 1), "Question: " + trim(text)});
  }
  if (out.empty()) {
    throw input_error("{}: found no \"Question: \", expected worked examples", file.string());
  }
  return out;
}

/// The text after the last mark, without thousands separators.
std::string number_of(const JsonView& answer) {
  const std::string text = answer.as_string();
  const std::size_t mark = text.rfind(kMark);
  if (mark == std::string::npos) answer.fail("an answer with \"#### \" and a number");
  const std::string number = replace_all(trim(text.substr(mark + kMark.size())), ",", "");
  if (number.empty() || number.find_first_not_of("-.0123456789") != std::string::npos) {
    answer.fail("a number after \"#### \"");
  }
  return number;
}

}  // namespace

std::vector<Dialogue> read_gsm8k(const fs::path& file, const fs::path& examples,
                                 const std::string& name, std::size_t limit) {
  const std::vector<Paragraph> paragraphs =
      examples.empty() ? std::vector<Paragraph>() : read_examples(examples);
  std::vector<Dialogue> out;
  for_each_json_line(file, [&](const JsonView& view) {
    if (limit != 0 && out.size() == limit) return;
    view.require_known_keys({"question", "answer"});
    Turn turn;
    turn.contexts = paragraphs;
    turn.question = view.at("question").as_string();
    if (trim(turn.question).empty()) view.at("question").fail("a question");
    if (paragraphs.empty()) {
      turn.instruction =
          "Solve the problem step by step. End with \"The answer is\" and the number.";
    } else {
      turn.question = fmt::format("Question: {}\n{}", turn.question, kSteps);
    }
    turn.references = {number_of(view.at("answer"))};
    turn.gold = fmt::format("The answer is {}.", turn.references.front());
    turn.max_new_tokens = kGsm8kAnswerTokens;
    out.push_back({.id = fmt::format("{}-{:04}", name, out.size()),
                   .dataset = name,
                   .task = "reasoning",
                   .metric = "gsm8k",
                   .turns = {std::move(turn)}});
  });
  return out;
}

}  // namespace turnbench
