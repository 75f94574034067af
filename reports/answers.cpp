#include "reports/answers.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>

#include "common/error.h"
#include "common/text.h"
#include "harness/store/cell.h"
#include "harness/store/dialogue_writer.h"
#include "harness/store/method_filter.h"
#include "metrics/metric.h"
#include "reports/escape.h"
#include "reports/method_labels.h"

namespace turnbench {
namespace {

// Bytes of a text that Markdown shows.
constexpr std::size_t kShownQuestion = 600, kShownReferences = 300, kShownAnswer = 400;

const std::vector<std::string_view>& condition_fields() {
  static const std::vector<std::string_view> fields = {"score", "turn", "prompt_tokens",
                                                       "answer_tokens"};
  return fields;
}

/// Cells whose answers are shown together: those of all methods with equal settings.
using Group = std::vector<const Cell*>;

/// The cells that a request selects, in table order; rejects requests that select none.
std::vector<Cell> wanted_cells(const Store& store, const AnswersRequest& request) {
  store.manifest(request.experiment);  // throws for an unknown name
  std::vector<Cell> cells = store.cells(request.experiment);
  std::erase_if(cells, is_probe);
  if (cells.empty()) {
    throw input_error("{}: found no methods in {}, expected some: probes have no answers",
                      store.path(), request.experiment);
  }
  const auto names = [&](const std::string Cell::*name) {
    std::set<std::string_view> out;
    for (const Cell& cell : cells) out.insert(cell.*name);
    return std::vector<std::string_view>(out.begin(), out.end());
  };
  std::vector<MethodFilter> filters;
  std::set<std::string> labels;
  for (const Cell& cell : cells) labels.insert(cell.method);
  for (const std::string& spec : request.methods) {
    const MethodFilter& filter = filters.emplace_back(named_method(spec, cells));
    if (std::none_of(cells.begin(), cells.end(), [&](const Cell& c) { return filter.matches(c); }))
      throw input_error("--method: found \"{}\", expected {}", printable(spec),
                        nearest_methods(spec, labels));
  }
  const auto require = [&](const char* option, const std::string& wanted,
                           const std::string Cell::*name) {
    const std::vector<std::string_view> known = names(name);
    if (wanted.empty() || std::find(known.begin(), known.end(), wanted) != known.end()) return;
    throw input_error("{}: found \"{}\", expected {}", option, printable(wanted),
                      nearest_or_all(wanted, known));
  };
  require("--dataset", request.dataset, &Cell::dataset);
  require("--position", request.position, &Cell::position);
  std::erase_if(cells, [&](const Cell& cell) {
    const bool shown =
        filters.empty() ||
        std::any_of(filters.begin(), filters.end(), [&](const auto& f) { return f.matches(cell); });
    return !shown || (!request.dataset.empty() && cell.dataset != request.dataset) ||
           (!request.position.empty() && cell.position != request.position);
  });
  return cells;
}

/// Rejects a dialogue that none of the cells has.
void require_dialogue(const Store& store, const std::vector<Cell>& cells, const std::string& id) {
  if (id.empty()) return;
  std::set<std::string> hashes, known;
  for (const Cell& cell : cells) hashes.insert(cell.dataset_hash);
  for (const std::string& hash : hashes) {
    for (const auto& [name, turns] : store.turn_counts(hash)) known.insert(name);
  }
  if (known.contains(id)) return;
  const std::string near = nearest_name(id, {known.begin(), known.end()});
  throw input_error("--dialogue: found \"{}\", expected {}", printable(id),
                    near.empty() ? "an id as answers prints it" : "\"" + near + "\"");
}

constexpr const char* kLeftOut = "(left out of this store)";

/// The question, unless it was left out of the store.
std::string question_of(const Turn& turn) {
  return lacks_text(turn) ? kLeftOut : turn.question;
}

std::vector<std::string> context_of(const Turn& turn) {
  if (lacks_text(turn)) return {kLeftOut};
  std::vector<std::string> out;
  if (!turn.instruction.empty()) out.push_back(turn.instruction);
  for (const auto& paragraph : turn.contexts) out.push_back(paragraph.text);
  return out;
}

MethodAnswer answer_of(const Cell& cell, const Store::StoredAnswer* stored) {
  MethodAnswer out{cell.method, "pending", {}, {}, {}, {}, {}, {}, cell.key};
  if (stored == nullptr) return out;
  out.status = stored->status;
  out.error = stored->error;
  out.answer = stored->answer;
  if (stored->score) out.score = 100 * *stored->score;
  if (stored->prompt_tokens > 0) {
    out.prompt_tokens = stored->prompt_tokens;
    out.tokens = stored->answer_tokens;
    if (stored->status == "ok") out.finish_reason = stored->stopped ? "stop" : "length";
  }
  return out;
}

/// Text for Markdown: on one line, with special characters escaped.
std::string plain(std::string_view text, std::size_t most) {
  std::string words;
  for (char c : text) {
    const bool space = c == ' ' || c == '\n' || c == '\t' || c == '\r';
    if (!space) words += c;
    if (space && !words.empty() && words.back() != ' ') words += ' ';
  }
  std::string out;
  for (char c : one_line(shorten(words, most))) {
    if (std::string_view("\\`*_[]<>#|~$&").find(c) != std::string_view::npos) out += '\\';
    out += c;
  }
  return out;
}

template <typename Number>
OrderedJson or_null(const std::optional<Number>& number) {
  return number ? OrderedJson(*number) : OrderedJson(nullptr);
}

}  // namespace

AnswerCondition AnswerCondition::parse(const std::string& text) {
  constexpr std::string_view kOperators = "<>=!";
  const std::size_t begin = std::min(text.find_first_of(kOperators), text.size()),
                    end = std::min(text.find_first_not_of(kOperators, begin), text.size());
  AnswerCondition out;
  out.field_ = trim(text.substr(0, begin));
  out.operator_ = text.substr(begin, end - begin);
  const auto& fields = condition_fields();
  if (std::find(fields.begin(), fields.end(), out.field_) == fields.end()) {
    throw input_error("--where: found the field \"{}\", expected {}", printable(out.field_),
                      nearest_or_all(out.field_, fields));
  }
  const std::set<std::string_view> operators = {"<", "<=", ">", ">=", "=", "!="};
  if (!operators.contains(out.operator_)) {
    throw input_error("--where: found the operator \"{}\" in \"{}\", expected one of: {}",
                      out.operator_, printable(text), join(operators, ", "));
  }
  const std::string number = trim(text.substr(end));
  const std::optional<double> value = parse_number<double>(number);
  if (!value || !std::isfinite(*value)) {
    throw input_error("--where: found \"{}\" in \"{}\", expected a number", printable(number),
                      printable(text));
  }
  out.value_ = *value;
  return out;
}

bool AnswerCondition::holds(const AnsweredTurn& turn, const MethodAnswer& answer) const {
  std::optional<double> value;
  if (field_ == "score") value = answer.score;
  if (field_ == "turn") value = turn.turn + 1;
  if (field_ == "prompt_tokens") value = answer.prompt_tokens;
  if (field_ == "answer_tokens") value = answer.tokens;
  if (!value) return false;
  if (operator_ == "<") return *value < value_;
  if (operator_ == "<=") return *value <= value_;
  if (operator_ == ">") return *value > value_;
  if (operator_ == ">=") return *value >= value_;
  return (*value == value_) == (operator_ == "=");
}

void for_each_answered_turn(const Store& store, const AnswersRequest& request,
                            const std::function<void(const AnsweredTurn&)>& visit) {
  const std::vector<Cell> cells = wanted_cells(store, request);
  require_dialogue(store, cells, request.dialogue);
  std::size_t left = request.limit > 0 ? request.limit : SIZE_MAX;
  std::vector<std::string> datasets;
  std::map<std::string, std::vector<Group>> groups;  // by dataset, in table order
  using Settings = std::tuple<std::string, std::string, std::string, std::string, std::string>;
  std::map<Settings, std::size_t> places;
  for (const Cell& c : cells) {
    std::vector<Group>& of_dataset = groups[c.dataset];
    if (of_dataset.empty()) datasets.push_back(c.dataset);
    const auto [place, is_new] = places.try_emplace(
        {c.dataset, c.model, c.position, c.history, c.answers}, of_dataset.size());
    if (is_new) of_dataset.emplace_back();
    of_dataset[place->second].push_back(&c);
  }
  for (const std::string& dataset : datasets) {
    const std::string& hash = groups.at(dataset).front().front()->dataset_hash;
    for (const auto& [id, turns] : store.turn_counts(hash)) {
      if (!request.dialogue.empty() && id != request.dialogue) continue;
      const std::vector<Store::StoredAnswer> stored =
          store.answers_of(request.experiment, hash, id);
      if (stored.empty()) continue;
      std::map<std::pair<std::string_view, int>, const Store::StoredAnswer*> by_place;
      for (const Store::StoredAnswer& a : stored) by_place[{a.cell, a.turn}] = &a;
      const Dialogue dialogue = store.parse(store.dialogue(hash, id));
      for (const Group& group : groups.at(dataset)) {
        for (int t = 0; t < turns; ++t) {
          const Turn& turn = dialogue.turns[t];
          AnsweredTurn out{*group.front(), id, question_of(turn), t, turn.references, {}};
          bool asked = false;
          for (const Cell* cell : group) {
            const auto found = by_place.find({cell->key, t});
            asked |= found != by_place.end();
            out.answers.push_back(
                answer_of(*cell, found == by_place.end() ? nullptr : found->second));
          }
          for (MethodAnswer& answer : out.answers) {
            if (!has_reference(turn.references))
              answer.score.reset();  // stored by an older version
          }
          const bool wanted =
              std::any_of(out.answers.begin(), out.answers.end(), [&](const MethodAnswer& answer) {
                return std::all_of(request.where.begin(), request.where.end(),
                                   [&](const auto& c) { return c.holds(out, answer); });
              });
          if (!asked || !wanted) continue;
          if (request.context) out.context = context_of(turn);
          visit(out);
          if (--left == 0) return;
        }
      }
    }
  }
}

OrderedJson to_json(const AnsweredTurn& turn) {
  OrderedJson out = {{"model", turn.cell.model},
                     {"dataset", turn.cell.dataset},
                     {"position", turn.cell.position},
                     {"dialogue", turn.dialogue},
                     {"turn", turn.turn + 1},
                     {"settings", {{"history", turn.cell.history}, {"answers", turn.cell.answers}}},
                     {"metric", turn.cell.metric},
                     {"postprocess", turn.cell.postprocess},
                     {"question", turn.question},
                     {"references", turn.references}};
  if (turn.context) out["context"] = *turn.context;
  out["answers"] = OrderedJson::array();
  for (const MethodAnswer& a : turn.answers) {
    const bool answered = a.status == "ok" || !a.answer.empty();  // or not scored, but present
    out["answers"].push_back(
        {{"method", a.method},
         {"score", or_null(a.score)},
         {"answer", answered ? OrderedJson(a.answer) : OrderedJson(nullptr)},
         {"tokens", or_null(a.tokens)},
         {"finish_reason",
          a.finish_reason.empty() ? OrderedJson(nullptr) : OrderedJson(a.finish_reason)},
         {"prompt_tokens", or_null(a.prompt_tokens)},
         {"status", a.status},
         {"error", a.error.empty() ? OrderedJson(nullptr) : OrderedJson(a.error)}});
  }
  return out;
}

std::string to_markdown(const AnsweredTurn& turn) {
  const Cell& c = turn.cell;
  const std::string metric =
      c.postprocess == "none" ? c.metric : fmt::format("{} of {}", c.metric, c.postprocess);
  std::string context;
  for (const std::string& part : turn.context.value_or(std::vector<std::string>()))
    context += "> " + plain(part, part.size()) + "\n>\n";
  if (!context.empty()) context = "**Context:**\n\n" + context + "\n";
  std::string out = fmt::format(
      "## {}, {}, turn {}\n\n{}, question at the {}, history {}, answers {}, {}\n\n"
      "{}**Question:** {}\n\n**References:** {}\n\n"
      "| method | score | tokens | answer |\n| --- | ---: | ---: | --- |\n",
      plain(c.dataset, kShownReferences), plain(turn.dialogue, kShownReferences), turn.turn + 1,
      plain(c.model, kShownReferences), c.position, c.history, c.answers,
      plain(metric, kShownReferences), context, plain(turn.question, kShownQuestion),
      plain(join(turn.references, " / "), kShownReferences));
  for (const MethodAnswer& a : turn.answers) {
    const std::string text = a.status == "ok"  ? plain(a.answer, kShownAnswer)
                             : a.error.empty() ? a.status
                                               : a.status + ": " + plain(a.error, kShownAnswer);
    const std::string tokens = a.tokens ? std::to_string(*a.tokens) : "";
    out += fmt::format("| {} | {} | {}{} | {} |\n", plain(a.method, kShownReferences),
                       a.score ? fmt::format("{:.1f}", *a.score) : "", tokens,
                       a.finish_reason == "length" ? " (limit)" : "", text);
  }
  return out + "\n";
}

}  // namespace turnbench
