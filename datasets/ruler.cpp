#include "datasets/ruler.h"

#include <algorithm>
#include <set>

#include "common/error.h"
#include "common/text.h"
#include "datasets/jsonl.h"
#include "datasets/paragraphs.h"

namespace turnbench {
namespace {

// name, description, kind, metric, max_new_tokens (RULER's tokens_to_generate)
constexpr RulerTask kRulerTasks[] = {
    {"niah_single_1", "a number in repeated noise", "retrieval", "ruler_match_all", 128},
    {"niah_single_2", "a number in essays", "retrieval", "ruler_match_all", 128},
    {"niah_single_3", "a UUID in essays", "retrieval", "ruler_match_all", 128},
    {"niah_multikey_1", "one of four numbers in essays", "retrieval", "ruler_match_all", 128},
    {"niah_multikey_2", "one of many numbers", "retrieval", "ruler_match_all", 128},
    {"niah_multikey_3", "one of many UUIDs", "retrieval", "ruler_match_all", 128},
    {"niah_multivalue", "four values of one key", "retrieval", "ruler_match_all", 128},
    {"niah_multiquery", "the values of four keys", "retrieval", "ruler_match_all", 128},
    {"vt", "variables through a chain of assignments", "tracing", "ruler_match_all", 30},
    {"cwe", "the ten most common words", "aggregation", "ruler_match_all", 120},
    {"fwe", "the three most frequent coded words", "aggregation", "ruler_match_all", 50},
    {"qa_1", "SQuAD questions among distracting passages", "qa", "ruler_match_part", 32},
    {"qa_2", "HotpotQA questions among distracting passages", "qa", "ruler_match_part", 32},
};

/// Removes the answer prefix from the end of a prompt, or takes that of the field.
std::string answer_prefix_of(const JsonView& view, const RulerTask& task, std::string& prompt) {
  if (view.has("answer_prefix")) return view.at("answer_prefix").as_string();
  const std::string_view start = task.kind == "retrieval" ? " The special magic " : " Answer:";
  const std::size_t begin = prompt.rfind(start);
  if (begin == std::string::npos || prompt.find('\n', begin) != std::string::npos)
    view.at("input").fail(fmt::format("a prompt whose last line has \"{}\"", start));
  std::string out = prompt.substr(begin);
  prompt.erase(begin);
  return out;
}

Turn turn_of(const JsonView& view, const RulerTask& task) {
  const JsonView input = view.at("input");
  std::string text = input.as_string();
  Turn turn;
  turn.answer_prefix = answer_prefix_of(view, task, text);
  text = trim(text);
  const std::size_t last = text.rfind('\n');
  if (last == std::string::npos) input.fail("a prompt of several lines");
  std::string context = text.substr(0, last);
  turn.question = trim(text.substr(last));
  const std::size_t first = context.find('\n');
  if (first != std::string::npos) {
    turn.instruction = context.substr(0, first);
    context.erase(0, first);
  }
  turn.references = view.at("outputs").as_strings();
  if (turn.references.empty()) view.at("outputs").fail("at least one output");
  for (std::string& paragraph : split_context(context, {.split = SplitRule::kLines})) {
    const std::string source = fmt::format("part-{}", turn.contexts.size() + 1);
    const bool relevant =
        std::any_of(turn.references.begin(), turn.references.end(),
                    [&](const std::string& r) { return paragraph.find(r) != std::string::npos; });
    if (relevant) turn.relevance.push_back(source);
    turn.contexts.push_back({source, std::move(paragraph)});
  }
  if (turn.relevance.empty()) {
    for (const Paragraph& p : turn.contexts) turn.relevance.push_back(p.source);
  }
  // The references of the question-answering tasks are alternatives.
  turn.gold = task.kind == "qa" ? turn.references.front() : join(turn.references, ", ");
  turn.max_new_tokens = task.max_new_tokens;
  return turn;
}

}  // namespace

std::span<const RulerTask> ruler_tasks() {
  return kRulerTasks;
}

std::vector<std::string> ruler_files(const RulerTask& task) {
  return {fmt::format("{}.jsonl", task.name), fmt::format("{}/validation.jsonl", task.name),
          fmt::format("data/{}/validation.jsonl", task.name)};
}

std::vector<Dialogue> read_ruler(const std::filesystem::path& file, const RulerTask& task,
                                 const std::string& name, std::size_t limit) {
  std::vector<Dialogue> out;
  std::set<std::int64_t> indices;
  for_each_json_line(file, [&](const JsonView& view) {
    if (limit != 0 && out.size() == limit) return;
    view.require_known_keys({"index", "input", "outputs", "length", "length_w_model_temp",
                             "answer_prefix", "token_position_answer"});
    view.at("length").as_integer(0);
    const std::int64_t index = view.at("index").as_integer(0);
    if (!indices.insert(index).second) view.at("index").fail("a unique index");
    out.push_back({.id = fmt::format("{}-{:05}", task.name, index),
                   .dataset = name,
                   .task = std::string(task.kind),
                   .metric = std::string(task.metric),
                   .turns = {turn_of(view, task)}});
  });
  return out;
}

}  // namespace turnbench
