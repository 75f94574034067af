#include "datasets/infinitebench.h"

#include <nlohmann/json.hpp>
#include <set>

#include "common/error.h"
#include "common/text.h"
#include "datasets/answers.h"
#include "datasets/jsonl.h"
#include "datasets/paragraphs.h"

namespace turnbench {
namespace {

constexpr std::string_view kHidden =
    "Something important is hidden in a lot of other text. Remember it: you will be asked about "
    "it. Reply with it only.";
constexpr std::string_view kBook =
    "Answer the question about the following book. Reply with the answer only.";

// name, description, kind, max_new_tokens, has_options, instruction, ask
constexpr InfiniteBenchTask kInfiniteBenchTasks[] = {
    {"passkey", "pass key in repeated noise", "retrieval", 6, false, kHidden, ""},
    {"number_string", "sequence of digits in repeated noise", "retrieval", 12, false, kHidden, ""},
    {"kv_retrieval", "value of a key in a JSON object", "retrieval", 50, false,
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
    {"longdialogue_qa_eng", "masked name in a script", "qa", 40, false,
     "In the following script one name is replaced by $$MASK$$. Reply with that name only, as it "
     "stands before the colons.",
     "Which name does $$MASK$$ stand for?"},
    {"math_find", "a special number in a list", "reasoning", 3, false,
     "The following text is a list of numbers. Reply with a number only.", ""},
    {"math_calc", "all intermediate values of a long sum", "reasoning", 30000, false,
     "The following text is a sum.",
     "Write the value after each operation, as a list of numbers in brackets."},
    {"code_run", "value of a function that calls many others", "code", 5, false,
     "The following text is Python code. Reply with a number only.", ""},
    {"code_debug", "which of four functions has an error", "code", 5, true,
     "One function of the following code has an error. Reply with the letter of the right option "
     "only.",
     "Which function has the error?"},
};

Turn turn_of(const JsonView& view, const InfiniteBenchTask& task) {
  Turn turn;
  turn.instruction = task.instruction;
  const SplitRule split = task.kind == "code" ? SplitRule::kCode : SplitRule::kProse;
  for (std::string& text : split_context(view.at("context").as_string(), {.split = split})) {
    turn.contexts.push_back({"context", std::move(text)});
  }
  if (turn.contexts.empty()) view.at("context").fail("a text");
  turn.question = view.get("input", std::string());
  if (trim(turn.question).empty()) turn.question = task.default_question;
  if (turn.question.empty()) view.at("input").fail("a question");
  turn.references = parse_references(view.at("answer"));
  if (task.has_options) add_options(turn, view);
  turn.relevance = {"context"};
  turn.gold = task.name == "math_calc" ? fmt::format("[{}]", join(turn.references, ", "))
                                       : turn.references.front();
  turn.max_new_tokens = task.max_new_tokens;
  return turn;
}

}  // namespace

std::span<const InfiniteBenchTask> infinitebench_tasks() {
  return kInfiniteBenchTasks;
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
    if (!ids.insert(id).second) view.at("id").fail("a unique id");
    out.push_back({.id = fmt::format("{}-{:04}", task.name, id),
                   .dataset = name,
                   .task = std::string(task.kind),
                   .metric = fmt::format("infinitebench_{}", task.name),
                   .turns = {turn_of(view, task)}});
  });
  return out;
}

}  // namespace turnbench
