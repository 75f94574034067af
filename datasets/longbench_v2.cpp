#include "datasets/longbench_v2.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "common/error.h"
#include "common/file.h"
#include "common/json.h"
#include "common/python_text.h"
#include "common/text.h"
#include "datasets/paragraphs.h"
#include "datasets/source_file.h"

namespace turnbench {
namespace {

namespace fs = std::filesystem;

constexpr int kLongBenchV2AnswerTokens = 128;  // as in the official pred.py

constexpr LongBenchV2Set kLongBenchV2Sets[] = {
    {"", "", "", "multiple-choice questions on texts of up to 2 million words"},
    {"-easy", "difficulty", "easy", "the questions of the class easy"},
    {"-hard", "difficulty", "hard", "the questions of the class hard"},
    {"-short", "length", "short", "the questions of the length class short"},
    {"-medium", "length", "medium", "the questions of the length class medium"},
    {"-long", "length", "long", "the questions of the length class long"},
};

constexpr std::string_view kDocument = "$DOC$";

/// The placeholders of the template after $DOC$, in the order in which pred.py replaces them, with
/// the fields.
constexpr std::pair<std::string_view, const char*> kPlaceholders[] = {
    {"$Q$", "question"},   {"$C_A$", "choice_A"}, {"$C_B$", "choice_B"},
    {"$C_C$", "choice_C"}, {"$C_D$", "choice_D"},
};

std::string one_of(const JsonView& value, const std::vector<std::string_view>& known) {
  std::string out = value.as_string();
  if (std::find(known.begin(), known.end(), out) == known.end())
    value.fail("one of: " + join(known, ", "));
  return out;
}

/// The context in paragraphs and the question with its choices, in our own wording.
void add_pieces(Turn& turn, const JsonView& view) {
  turn.instruction = "Answer the question about the following text.";
  for (std::string& text : split_context(view.at("context").as_string(), {}))
    turn.contexts.push_back({"context", std::move(text)});
  turn.question = trim(view.at("question").as_string());
  for (const char letter : {'A', 'B', 'C', 'D'}) {
    turn.question += fmt::format("\n({}) {}", letter,
                                 trim(view.at(fmt::format("choice_{}", letter)).as_string()));
  }
  turn.question +=
      "\nReply with the sentence \"The correct answer is (X)\", with the letter of the right "
      "choice "
      "instead of X.";
}

/// The official prompt.
void add_verbatim(Turn& turn, const JsonView& view, std::string_view prompt) {
  const auto fill = [&](std::string_view text) {
    std::string out(text);
    for (const auto& [placeholder, field] : kPlaceholders) {
      const std::string value = view.at(field).as_string();
      out = python::replace_all(out, placeholder, python::strip(value));
    }
    return out;
  };
  const std::size_t at = prompt.find(kDocument);
  const std::string document = view.at("context").as_string();
  turn.instruction = fill(prompt.substr(0, at));
  turn.contexts = {{"context", fill(python::strip(document))}};
  turn.question = fill(prompt.substr(at + kDocument.size()));
  turn.layout = Layout::kVerbatim;
}

Turn turn_of(const JsonView& view, const std::string& prompt) {
  Turn turn;
  if (trim(view.at("question").as_string()).empty()) view.at("question").fail("a question");
  if (trim(view.at("context").as_string()).empty()) view.at("context").fail("a text");
  if (prompt.empty()) {
    add_pieces(turn, view);
  } else {
    add_verbatim(turn, view, prompt);
  }
  turn.references = {one_of(view.at("answer"), {"A", "B", "C", "D"})};
  turn.gold = fmt::format("The correct answer is ({})", turn.references.front());
  turn.relevance = {"context"};
  turn.max_new_tokens = kLongBenchV2AnswerTokens;
  return turn;
}

}  // namespace

std::span<const LongBenchV2Set> longbench_v2_sets() {
  return kLongBenchV2Sets;
}

std::string load_longbench_v2_prompt(const fs::path& source) {
  const fs::path directory = directory_exists(source) ? source : source.parent_path();
  for (const fs::path& folder : {directory, directory / "prompts", directory / ".." / "prompts"}) {
    const fs::path path = folder / "0shot.txt";
    if (!path_exists(path)) continue;
    std::string out = read_utf8_file(path);
    const auto require_once = [&](std::string_view placeholder) {
      const std::size_t at = out.find(placeholder);
      if (at != out.npos && out.find(placeholder, at + 1) == out.npos) return;
      throw input_error("{}: found {} {}, expected it once", path.string(),
                        at == out.npos ? "no" : "several", placeholder);
    };
    require_once(kDocument);
    for (const auto& [placeholder, field] : kPlaceholders) require_once(placeholder);
    return out;
  }
  throw input_error("{}: found no official prompt, expected prompts/0shot.txt", source.string());
}

std::vector<Dialogue> read_longbench_v2(const fs::path& file, const LongBenchV2Set& set,
                                        const std::string& name, std::size_t limit,
                                        const std::string& prompt) {
  const Json json = parse_json(read_file(file), file.string());
  std::vector<Dialogue> out;
  std::set<std::string> ids;
  for (const JsonView& view : JsonView(json, file.string()).items()) {
    if (limit != 0 && out.size() == limit) break;
    view.require_known_keys({"_id", "domain", "sub_domain", "difficulty", "length", "question",
                             "choice_A", "choice_B", "choice_C", "choice_D", "answer", "context"});
    const std::string id = view.at("_id").as_string();
    if (id.empty() || !ids.insert(id).second) view.at("_id").fail("a unique id");
    one_of(view.at("difficulty"), {"easy", "hard"});
    one_of(view.at("length"), {"short", "medium", "long"});
    view.at("sub_domain").as_string();
    if (!set.field.empty() && view.at(std::string(set.field)).as_string() != set.value) continue;
    out.push_back({.id = id,
                   .dataset = name,
                   .task = view.at("domain").as_string(),
                   .metric = "longbench_v2",
                   .turns = {turn_of(view, prompt)}});
  }
  return out;
}

}  // namespace turnbench
