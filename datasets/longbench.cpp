#include "datasets/longbench.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "common/error.h"
#include "common/file.h"
#include "common/json.h"
#include "common/text.h"
#include "datasets/fill_template.h"
#include "datasets/jsonl.h"
#include "datasets/source_file.h"

namespace turnbench {
namespace {

namespace fs = std::filesystem;

LongBenchRecord record_from(const JsonView& view, const LongBenchTask& task,
                            std::string_view name) {
  view.require_known_keys(
      {"input", "context", "answers", "length", "dataset", "language", "all_classes", "_id"});
  // LongBench-E files use either name.
  const std::string dataset = view.at("dataset").as_string();
  if (dataset != name && dataset != task.name) {
    view.at("dataset").fail(fmt::format("\"{}\"", name));
  }
  LongBenchRecord record;
  record.id = view.at("_id").as_string();
  if (record.id.empty()) view.at("_id").fail("an id");
  record.language = view.at("language").as_string();
  record.input = view.at("input").as_string();
  if (record.input.empty() && task.wording.default_question.empty())
    view.at("input").fail("a question");
  record.context = view.at("context").as_string();
  if (trim(record.context).empty()) view.at("context").fail("a text");
  record.answers = view.at("answers").as_strings();
  if (record.answers.empty()) view.at("answers").fail("at least one answer");
  record.length = view.at("length").as_integer(0);
  const JsonView classes = view.at("all_classes");
  if (!classes.is_null()) record.classes = classes.as_strings();
  if (task.metric == "classification" && record.classes.empty()) {
    classes.fail("the classes, as this is a classification");
  }
  return record;
}

}  // namespace

std::vector<std::string> longbench_files(std::string_view name) {
  std::vector<std::string> out;
  for (const char* folder : {"", "data/", "native/", "recovered/"}) {
    out.push_back(fmt::format("{}{}.jsonl", folder, name));
  }
  return out;
}

fs::path find_longbench_file(const fs::path& source, std::string_view name) {
  return find_source_file(source, longbench_files(name));
}

void for_each_longbench_record(const fs::path& file, std::string_view name,
                               const std::function<void(LongBenchRecord&&)>& visit) {
  const LongBenchTask& task = find_longbench_task(name, file.string());
  for_each_json_line(file, [&](const JsonView& view) { visit(record_from(view, task, name)); });
}

std::vector<LongBenchRecord> read_longbench(const fs::path& source, std::string_view name) {
  std::vector<LongBenchRecord> out;
  std::unordered_map<std::string, int> seen;
  for_each_longbench_record(find_longbench_file(source, name), name, [&](LongBenchRecord&& record) {
    const int count = ++seen[record.id];
    if (count > 1) record.id += fmt::format("~{}", count);
    out.push_back(std::move(record));
  });
  return out;
}

Dialogue longbench_dialogue(std::string_view name, const LongBenchRecord& record) {
  const LongBenchTask& task = find_longbench_task(name, "longbench_dialogue");
  const Wording& wording = task.wording;
  Turn turn;
  turn.instruction = wording.instruction;
  for (std::string& text : split_context(record.context, task.layout)) {
    turn.contexts.push_back({record.id, std::move(text)});
  }
  turn.question = record.input;
  if (record.input.empty()) {
    turn.question =
        fill_template(wording.default_question, {{"document", wording.document_name}}, "");
  }
  turn.references = record.answers;
  turn.classes = record.classes;
  turn.relevance = {record.id};
  turn.gold = record.answers.front();
  turn.max_new_tokens = task.max_new_tokens;
  return {.id = record.id,
          .dataset = std::string(name),
          .task = std::string(task.kind),
          .metric = std::string(task.metric),
          .turns = {std::move(turn)}};
}

std::map<std::string, std::string> load_official_prompts(const fs::path& source) {
  const fs::path directory = directory_exists(source) ? source : source.parent_path();
  std::map<std::string, std::string> out;
  for (const fs::path& folder : {directory, directory / "config", directory / ".." / "config"}) {
    const fs::path path = folder / "dataset2prompt.json";
    if (!path_exists(path)) continue;
    const Json json = parse_json(read_file(path), path.string());
    const JsonView view(json, path.string());
    for (const std::string& task : view.keys()) {
      const JsonView prompt = view.at(task);
      out[task] = prompt.as_string();
      fill_template(out[task], {{"context", ""}, {"input", ""}},
                    prompt.source() + ": " + prompt.path());
    }
    break;
  }
  return out;
}

std::string official_prompt(const fs::path& source, std::string_view name) {
  const std::map<std::string, std::string> prompts = load_official_prompts(source);
  const auto found = prompts.find(std::string(find_longbench_task(name, source.string()).name));
  if (found == prompts.end()) {
    throw input_error("{}: found no prompt of {}, expected one in config/dataset2prompt.json",
                      source.string(), name);
  }
  return found->second;
}

Dialogue official_dialogue(std::string_view name, const LongBenchRecord& record,
                           std::string_view prompt) {
  constexpr std::string_view kContext = "{context}";
  const std::size_t context = prompt.find(kContext);
  if (context == prompt.npos) {
    throw input_error("{}: found the prompt \"{}\", expected one with {{context}}", name,
                      printable(shorten(prompt, 60)));
  }
  const auto fill = [&](std::string_view text) {
    return fill_template(text, {{"context", record.context}, {"input", record.input}},
                         "the prompt");
  };
  Dialogue out = longbench_dialogue(name, record);
  Turn& turn = out.turns.front();
  turn.instruction = fill(prompt.substr(0, context));
  turn.contexts = {{record.id, record.context}};
  turn.question = fill(prompt.substr(context + kContext.size()));
  turn.layout = out.task == "few-shot" || out.task == "code" ? Layout::kPlain : Layout::kVerbatim;
  return out;
}

}  // namespace turnbench
