#include "datasets/custom.h"

#include <algorithm>
#include <set>

#include "common/error.h"
#include "common/json.h"
#include "common/text.h"
#include "datasets/jsonl.h"
#include "datasets/paragraphs.h"

namespace turnbench {
namespace {

constexpr int kCustomAnswerTokens = 64;  // default of the file's option

const std::vector<std::string_view>& known_fields() {
  static const std::vector<std::string_view> known = {
      "id",     "turns",   "instruction", "context", "question", "position",      "references",
      "metric", "classes", "relevance",   "gold",    "has_gold", "answer_prefix", "max_new_tokens"};
  return known;
}

/// Fields of a dialogue; all others belong to a turn.
constexpr std::string_view kOfDialogue[] = {"id", "turns", "metric"};

bool is_of_dialogue(std::string_view field) {
  return std::find(std::begin(kOfDialogue), std::end(kOfDialogue), field) != std::end(kOfDialogue);
}

void check_names(const FieldNames& fields) {
  for (const auto& [ours, theirs] : fields) {
    if (std::find(known_fields().begin(), known_fields().end(), ours) != known_fields().end()) {
      continue;
    }
    throw input_error("fields: found the name \"{}\", expected {}", printable(shorten(ours, 60)),
                      nearest_or_all(ours, known_fields()));
  }
}

/// An object whose fields are accessed by our names.
class Fields {
 public:
  Fields(const JsonView& view, const FieldNames& names) : view_(view), names_(names) {}

  std::string name(const std::string& ours) const {
    const auto found = names_.find(ours);
    return found == names_.end() ? ours : found->second;
  }
  bool has(const std::string& ours) const { return view_.has(name(ours)); }
  JsonView at(const std::string& ours) const { return view_.at(name(ours)); }
  std::string text(const std::string& ours) const { return view_.get(name(ours), std::string()); }

  /// A text or a list of texts; none if the field is missing.
  std::vector<std::string> texts(const std::string& ours) const {
    if (!has(ours)) return {};
    const JsonView value = at(ours);
    if (value.is_string()) return {value.as_string()};
    if (!value.is_array()) value.fail("a text or a list of texts");
    return value.as_strings();
  }

  bool is_renamed(const std::string& name) const { return names_.contains(name); }

 private:
  const JsonView& view_;
  const FieldNames& names_;
};

/// Rejects known fields that would not be read: those of a turn next to `turns`, and those of a
/// dialogue in a turn.
void refuse_misplaced(const Fields& fields, bool in_turn) {
  for (const std::string_view ours : known_fields()) {
    const std::string name(ours);
    if (is_of_dialogue(ours) != in_turn || !fields.has(name)) continue;
    fields.at(name).fail(in_turn ? "it next to \"turns\", as a key of the dialogue"
                                 : "it in each of the \"turns\"");
  }
}

/// Records which of the file's own names occur in some line.
class Occurrences {
 public:
  explicit Occurrences(const FieldNames& names) : names_(names) {}

  void see(const JsonView& line) {
    see_object(line);
    const auto turns = names_.find("turns");
    const std::string name = turns == names_.end() ? "turns" : turns->second;
    if (!line.has(name) || !line.at(name).is_array()) return;
    for (const JsonView& turn : line.at(name).items()) see_object(turn);
  }

  /// @throws Error (input) for a renamed field that occurs in no line.
  void require_all(const std::filesystem::path& file) const {
    for (const auto& [ours, theirs] : names_) {
      if (seen_.contains(theirs)) continue;
      throw input_error("fields: found \"{}\" for {}, expected a field that some line of {} has",
                        printable(shorten(theirs, 60)), ours, file.string());
    }
  }

 private:
  void see_object(const JsonView& object) {
    if (!object.is_object()) return;
    for (const auto& [ours, theirs] : names_) {
      if (object.has(theirs)) seen_.insert(theirs);
    }
  }

  const FieldNames& names_;
  std::set<std::string> seen_;
};

std::vector<Paragraph> paragraphs_of(const JsonView& context, std::size_t turn) {
  std::vector<Paragraph> out;
  const auto add = [&](std::string text) {
    out.push_back({fmt::format("turn-{}#{}", turn, out.size() + 1), std::move(text)});
  };
  if (context.is_string()) {
    for (std::string& text : split_context(context.as_string(), {})) add(std::move(text));
    return out;
  }
  if (!context.is_array()) context.fail("a text or a list of paragraphs");
  for (const JsonView& item : context.items()) {
    if (item.is_string()) {
      add(item.as_string());
    } else if (!item.is_object()) {
      item.fail("a text, or an object with source and text");
    } else {
      out.push_back({item.at("source").as_string(), item.at("text").as_string()});
    }
  }
  return out;
}

Turn turn_of(const Fields& fields, std::size_t number, std::set<std::string>& sources) {
  Turn turn;
  turn.instruction = fields.text("instruction");
  // Files of `to_json_line` use the plural for the list of paragraphs.
  const bool plural = !fields.is_renamed("context") && !fields.has("context");
  const std::string context = plural ? "contexts" : "context";
  if (fields.has(context)) turn.contexts = paragraphs_of(fields.at(context), number);
  turn.question = fields.at("question").as_string();
  if (trim(turn.question).empty()) fields.at("question").fail("a question");
  turn.answer_prefix = fields.text("answer_prefix");
  if (fields.has("position")) {
    const JsonView position = fields.at("position");
    turn.position =
        parse_position(position.as_string(), position.source() + ": " + position.path());
  }
  fields.at("references");
  turn.references = fields.texts("references");
  if (turn.references.empty())
    fields.at("references").fail("at least one reference; \"\" where there is none");
  turn.classes = fields.texts("classes");
  turn.has_gold = !fields.has("has_gold") || fields.at("has_gold").as_bool();
  if (turn.has_gold) turn.gold = fields.has("gold") ? fields.text("gold") : turn.references.front();
  turn.max_new_tokens = fields.has("max_new_tokens")
                            ? static_cast<int>(fields.at("max_new_tokens").as_integer(1, 1 << 20))
                            : kCustomAnswerTokens;
  std::set<std::string> own;
  for (const Paragraph& p : turn.contexts) own.insert(p.source);
  sources.insert(own.begin(), own.end());
  if (!fields.has("relevance")) {
    turn.relevance.assign(own.begin(), own.end());
    return turn;
  }
  turn.relevance = fields.texts("relevance");
  for (const std::string& source : turn.relevance) {
    if (!sources.contains(source)) {
      fields.at("relevance").fail("sources of paragraphs of this or an earlier turn");
    }
  }
  return turn;
}

std::string id_of(const Fields& fields, std::size_t number) {
  if (!fields.has("id")) return fmt::format("{:06}", number);
  const JsonView id = fields.at("id");
  const std::string out = id.is_string() ? id.as_string() : std::to_string(id.as_integer());
  if (out.empty()) id.fail("an id");
  return out;
}

}  // namespace

std::vector<Dialogue> read_custom(const std::filesystem::path& file, const FieldNames& fields,
                                  const std::string& name, std::size_t limit) {
  check_names(fields);
  std::vector<Dialogue> out;
  std::set<std::string> ids;
  Occurrences occurrences(fields);
  for_each_json_line(file, [&](const JsonView& view) {
    occurrences.see(view);
    if (limit != 0 && out.size() == limit) return;
    const Fields line(view, fields);
    Dialogue dialogue{.id = id_of(line, out.size() + 1),
                      .dataset = name,
                      .task = "custom",
                      .metric = line.has("metric") ? line.text("metric") : "qa_f1",
                      .turns = {}};
    if (!ids.insert(dialogue.id).second) line.at("id").fail("a unique id");
    std::set<std::string> sources;
    if (!line.has("turns")) {
      dialogue.turns.push_back(turn_of(line, 1, sources));
    } else {
      refuse_misplaced(line, /*in_turn=*/false);
      for (const JsonView& item : line.at("turns").items()) {
        refuse_misplaced(Fields(item, fields), /*in_turn=*/true);
        dialogue.turns.push_back(turn_of(Fields(item, fields), dialogue.turns.size() + 1, sources));
      }
      if (dialogue.turns.empty()) line.at("turns").fail("at least one turn");
    }
    out.push_back(std::move(dialogue));
  });
  occurrences.require_all(file);
  return out;
}

}  // namespace turnbench
