#include "datasets/infinitebench.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "common/error.h"
#include "common/text.h"
#include "datasets/jsonl.h"
#include "datasets/paragraphs.h"

namespace turnbench {
namespace {

constexpr std::string_view kLetters = "ABCD";
constexpr std::string_view kHidden =
    "Something important is hidden in a lot of other text. Remember it: you will be asked about "
    "it. Reply with it only.";
constexpr std::string_view kBook =
    "Answer the question about the following book. Reply with the answer only.";

// name, description, kind, max_new_tokens, has_options, instruction, ask
constexpr InfiniteBenchTask kTasks[] = {
    {"passkey", "a pass key in repeated noise", "retrieval", 6, false, kHidden, ""},
    {"number_string", "a sequence of digits in repeated noise", "retrieval", 12, false, kHidden,
     ""},
    {"kv_retrieval", "the value of a key in a JSON object", "retrieval", 50, false,
     "Find the value of a key in the following JSON object. Reply with the value only.", ""},
    {"longbook_sum_eng", "summaries of novels", "summary", 1200, false,
     "The following text is a book.", "Summarize the book."},
    {"longbook_choice_eng", "questions on novels, with four options", "qa", 40, true,
     "Answer the question about the following book. Reply with the letter of the right option "
     "only.",
     ""},
    {"longbook_qa_eng", "questions on novels", "qa", 40, false, kBook, ""},
    {"longbook_qa_chn", "questions on novels, Chinese", "qa", 40, false,
     "请根据下面的书回答问题，只回答答案。", ""},
    {"longdialogue_qa_eng", "the masked name in a script", "qa", 40, false,
     "In the following script one name is replaced by $$MASK$$. Reply with that name only, as it "
     "stands before the colons.",
     "Which name does $$MASK$$ stand for?"},
    {"math_find", "a special number in a list", "reasoning", 3, false,
     "The following text is a list of numbers. Reply with a number only.", ""},
    {"math_calc", "all intermediate values of a long sum", "reasoning", 30000, false,
     "The following text is a sum.",
     "Write the value after each operation, as a list of numbers in brackets."},
    {"code_run", "the value of a function that calls many others", "code", 5, false,
     "The following text is Python code. Reply with a number only.", ""},
    {"code_debug", "the function with an error, of four", "code", 5, true,
     "One function of the following code has an error. Reply with the letter of the right option "
     "only.",
     "Which function has the error?"},
};

/// A text, or a number in its digits.
std::string text_of(const JsonView& view) {
  if (view.is_string()) return view.as_string();
  if (!view.is_number()) view.fail("a text or a number");
  return view.json().dump();
}

std::vector<std::string> answers_of(const JsonView& view) {
  std::vector<std::string> out;
  if (!view.is_array()) return {text_of(view)};
  for (const JsonView& item : view.items()) out.push_back(text_of(item));
  if (out.empty()) view.fail("at least one answer");
  return out;
}

/// The right option and its letter.
std::vector<std::string> choice_of(const JsonView& answer,
                                   const std::vector<std::string>& options) {
  const std::string text = answers_of(answer).front();
  const auto found = std::find(options.begin(), options.end(), text);
  if (found == options.end()) answer.fail("one of the options");
  return {text, std::string(1, kLetters[static_cast<std::size_t>(found - options.begin())])};
}

Turn turn_of(const JsonView& view, const InfiniteBenchTask& task) {
  Turn turn;
  turn.instruction = task.instruction;
  const Flow flow = task.kind == "code" ? Flow::kCode : Flow::kProse;
  for (std::string& text : split_context(view.at("context").as_string(), {.flow = flow})) {
    turn.contexts.push_back({"context", std::move(text)});
  }
  if (turn.contexts.empty()) view.at("context").fail("a text");
  turn.question = view.get("input", std::string());
  if (trim(turn.question).empty()) turn.question = task.ask;
  if (turn.question.empty()) view.at("input").fail("a question");
  turn.references = answers_of(view.at("answer"));
  if (task.has_options) {
    const std::vector<std::string> options = view.at("options").as_strings();
    if (options.size() != kLetters.size()) view.at("options").fail("four options");
    turn.references = choice_of(view.at("answer"), options);
    for (std::size_t i = 0; i < options.size(); ++i) {
      turn.question += fmt::format("\n{}. {}", kLetters[i], options[i]);
    }
  }
  turn.relevance = {"context"};
  turn.gold = task.name == "math_calc" ? fmt::format("[{}]", join(turn.references, ", "))
                                       : turn.references.front();
  turn.max_new_tokens = task.max_new_tokens;
  return turn;
}

}  // namespace

std::span<const InfiniteBenchTask> infinitebench_tasks() {
  return kTasks;
}

std::vector<Dialogue> read_infinitebench(const std::filesystem::path& file,
                                         const InfiniteBenchTask& task, const std::string& name,
                                         std::size_t limit) {
  std::vector<Dialogue> out;
  std::set<std::int64_t> ids;
  for_each_json_line(file, [&](const JsonView& view) {
    if (limit != 0 && out.size() == limit) return;
    view.require_known_keys({"id", "context", "input", "answer", "options"});
    const std::int64_t id = view.at("id").as_integer(0);
    if (!ids.insert(id).second) view.at("id").fail("an id that was not there before");
    out.push_back({.id = fmt::format("{}-{:04}", task.name, id),
                   .dataset = name,
                   .task = std::string(task.kind),
                   .metric = fmt::format("infinitebench_{}", task.name),
                   .turns = {turn_of(view, task)}});
  });
  return out;
}

}  // namespace turnbench
