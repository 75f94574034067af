#include "datasets/scbench.h"

#include <nlohmann/json.hpp>

#include "common/error.h"
#include "common/text.h"
#include "datasets/answers.h"
#include "datasets/jsonl.h"

namespace turnbench {
namespace {

constexpr std::size_t kSCBenchTurns = 5;  // the official args.py

constexpr std::string_view kPairsInstruction =
    "Find the value of a key in the following JSON object. Reply with the value only.";
constexpr std::string_view kPassage =
    "Find the value of a key in the following passage. Reply with the value only.";

// name, description, kind, metric, max_new_tokens, has_options, flow, instruction
constexpr SCBenchTask kSCBenchTasks[] = {
    {"kv", "values of keys in a JSON object", "retrieval", "scbench_kv", 150, false,
     SplitRule::kProse, kPairsInstruction},
    {"kv_hard", "values of keys in a large JSON object", "retrieval", "scbench_kv", 150, false,
     SplitRule::kProse, kPairsInstruction},
    {"kv_compressible", "values of keys in a text", "retrieval", "scbench_kv", 150, false,
     SplitRule::kProse, kPassage},
    {"prefix_suffix", "strings with a prefix and a suffix", "retrieval", "scbench_kv", 150, false,
     SplitRule::kLines},
    {"hashhop", "hashes through a chain of pairs", "tracing", "scbench_kv", 150, false,
     SplitRule::kLines},
    {"vt", "variables through chains of assignments", "tracing", "scbench_vt", 30},
    {"passkey", "pass keys in repeated noise", "retrieval", "scbench_passkey", 15, false,
     SplitRule::kProse,
     "Something important is hidden in a lot of other text. Remember it: you will be asked about "
     "it. Reply with it only."},
    {"qa_eng", "questions on novels", "qa", "scbench_qa_eng", 40, false, SplitRule::kProse,
     "Answer the question about the following book. Reply with the answer only."},
    {"qa_chn", "questions on novels, Chinese", "qa", "scbench_qa_chn", 40, false, SplitRule::kProse,
     "请根据下面的书回答问题，只回答答案。"},
    {"choice_eng", "questions on novels, with four options", "qa", "scbench_choice_eng", 40, true,
     SplitRule::kProse,
     "Answer the question about the following book. Reply with the letter of the right option "
     "only."},
    {"many_shot", "classification with hundreds of examples", "few-shot", "scbench_qa_eng", 10,
     false, SplitRule::kLines},
    {"mf", "special numbers in a list", "reasoning", "scbench_mf", 5, false, SplitRule::kNever,
     "The following text is a list of numbers. Reply with a number only."},
    {"summary", "summaries of papers", "summary", "scbench_summary", 200},
};

/// A text, or a list of integers as Python writes it.
std::string context_of(const JsonView& view) {
  if (!view.is_array()) return view.as_string();
  std::vector<std::string> numbers;
  for (const JsonView& item : view.items()) numbers.push_back(std::to_string(item.as_integer()));
  return numbers.empty() ? "" : fmt::format("[{}]", join(numbers, ", "));
}

Turn turn_of(const JsonView& view, const SCBenchTask& task) {
  Turn turn;
  turn.question = trim(view.at("input").as_string());
  if (turn.question.empty()) view.at("input").fail("a question");
  turn.references = parse_references(view.at("answer"));
  turn.gold = join(turn.references, ", ");
  if (task.has_options) add_options(turn, view);
  turn.relevance = {"context"};
  turn.max_new_tokens = task.max_new_tokens;
  return turn;
}

std::vector<Turn> turns_of(const JsonView& view, const SCBenchTask& task) {
  std::vector<Turn> out;
  for (const JsonView& item : view.at("multi_turns").items()) {
    if (out.size() < kSCBenchTurns) out.push_back(turn_of(item, task));
  }
  if (out.empty()) view.at("multi_turns").fail("at least one turn");
  const bool is_input = task.name == "vt" && !view.has("context");
  const JsonView context = view.at(is_input ? "input" : "context");
  out[0].instruction = task.instruction;
  for (std::string& text : split_context(context_of(context), {.split = task.split})) {
    out[0].contexts.push_back({"context", std::move(text)});
  }
  if (out[0].contexts.empty()) context.fail("a context");
  return out;
}

}  // namespace

std::span<const SCBenchTask> scbench_tasks() {
  return kSCBenchTasks;
}

std::vector<Dialogue> read_scbench(const std::filesystem::path& file, const SCBenchTask& task,
                                   const std::string& name, std::size_t limit) {
  std::vector<Dialogue> out;
  for_each_json_line(file, [&](const JsonView& view) {
    if (limit != 0 && out.size() == limit) return;
    out.push_back({.id = fmt::format("{}-{:04}", task.name, out.size()),
                   .dataset = name,
                   .task = std::string(task.kind),
                   .metric = std::string(task.metric),
                   .turns = turns_of(view, task)});
  });
  return out;
}

}  // namespace turnbench
