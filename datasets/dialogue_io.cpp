#include "datasets/dialogue_io.h"

#include <nlohmann/json.hpp>
#include <set>
#include <unordered_set>

#include "common/error.h"
#include "common/file.h"
#include "common/json.h"
#include "datasets/jsonl.h"

namespace turnbench {
namespace {

constexpr std::int64_t kMostAnswerTokens = 1 << 20;

OrderedJson to_json(const Turn& turn) {
  OrderedJson contexts = OrderedJson::array();
  for (const Paragraph& paragraph : turn.contexts) {
    contexts.push_back({{"source", paragraph.source}, {"text", paragraph.text}});
  }
  OrderedJson out = {{"instruction", turn.instruction},
                     {"contexts", std::move(contexts)},
                     {"question", turn.question},
                     {"position", name_of(turn.position)},
                     {"references", turn.references},
                     {"relevance", turn.relevance},
                     {"max_new_tokens", turn.max_new_tokens},
                     {"classes", turn.classes},
                     {"gold", turn.gold}};
  if (!turn.has_gold) out["has_gold"] = false;
  if (!turn.answer_prefix.empty()) out["answer_prefix"] = turn.answer_prefix;
  if (turn.layout != Layout::kPieces) out["layout"] = name_of(turn.layout);
  return out;
}

Layout layout_from(const JsonView& view) {
  for (Layout layout : {Layout::kPieces, Layout::kVerbatim, Layout::kPlain}) {
    if (view.as_string() == name_of(layout)) return layout;
  }
  view.fail("pieces, verbatim or plain");
}

Paragraph paragraph_from(const JsonView& view) {
  view.require_known_keys({"source", "text"});
  return {view.at("source").as_string(), view.at("text").as_string()};
}

Turn turn_from(const JsonView& view) {
  view.require_known_keys({"instruction", "contexts", "question", "position", "references",
                           "relevance", "max_new_tokens", "classes", "gold", "has_gold",
                           "answer_prefix", "layout"});
  Turn turn;
  turn.instruction = view.get("instruction", std::string());
  for (const JsonView& item : view.at("contexts").items()) {
    turn.contexts.push_back(paragraph_from(item));
  }
  turn.question = view.at("question").as_string();
  turn.answer_prefix = view.get("answer_prefix", std::string());
  const JsonView position = view.at("position");
  turn.position = parse_position(position.as_string(), position.source() + ": " + position.path());
  if (view.has("layout")) turn.layout = layout_from(view.at("layout"));
  turn.references = view.at("references").as_strings();
  if (turn.references.empty()) view.at("references").fail("at least one reference");
  turn.relevance = view.at("relevance").as_strings();
  turn.max_new_tokens =
      static_cast<int>(view.at("max_new_tokens").as_integer(1, kMostAnswerTokens));
  turn.classes = view.at("classes").as_strings();
  turn.has_gold = view.get("has_gold", true);
  if (turn.has_gold) turn.gold = view.get("gold", turn.references.front());
  return turn;
}

Dialogue dialogue_from(const JsonView& view) {
  view.require_known_keys({"id", "dataset", "task", "metric", "turns"});
  Dialogue dialogue;
  dialogue.id = view.at("id").as_string();
  if (dialogue.id.empty()) view.at("id").fail("an id");
  dialogue.dataset = view.at("dataset").as_string();
  dialogue.task = view.get("task", std::string());
  dialogue.metric = view.at("metric").as_string();
  const JsonView turns = view.at("turns");
  if (turns.size() == 0) turns.fail("at least one turn");
  std::set<std::string> sources;
  for (const JsonView& item : turns.items()) {
    Turn turn = turn_from(item);
    for (const Paragraph& paragraph : turn.contexts) sources.insert(paragraph.source);
    for (const JsonView& source : item.at("relevance").items()) {
      if (!sources.contains(source.as_string())) {
        source.fail("the source of a paragraph of this or an earlier turn");
      }
    }
    dialogue.turns.push_back(std::move(turn));
  }
  return dialogue;
}

}  // namespace

std::string to_json_line(const Dialogue& dialogue) {
  OrderedJson turns = OrderedJson::array();
  for (const Turn& turn : dialogue.turns) turns.push_back(to_json(turn));
  return OrderedJson{{"id", dialogue.id},
                     {"dataset", dialogue.dataset},
                     {"task", dialogue.task},
                     {"metric", dialogue.metric},
                     {"turns", std::move(turns)}}
      .dump();
}

Dialogue parse_dialogue(std::string_view line, const std::string& source) {
  const Json json = parse_json(line, source);
  return dialogue_from(JsonView(json, source));
}

void write_dialogues(const std::filesystem::path& path, std::span<const Dialogue> dialogues) {
  std::string out;
  for (const Dialogue& dialogue : dialogues) out += to_json_line(dialogue) + "\n";
  write_file(path, out);
}

void for_each_dialogue(const std::filesystem::path& path,
                       const std::function<void(Dialogue&&)>& visit) {
  std::unordered_set<std::string> ids;
  for_each_json_line(path, [&](const JsonView& view) {
    Dialogue dialogue = dialogue_from(view);
    if (!ids.insert(dialogue.id).second) view.at("id").fail("a unique id");
    visit(std::move(dialogue));
  });
}

std::vector<Dialogue> read_dialogues(const std::filesystem::path& path) {
  std::vector<Dialogue> out;
  for_each_dialogue(path, [&](Dialogue&& dialogue) { out.push_back(std::move(dialogue)); });
  return out;
}

}  // namespace turnbench
