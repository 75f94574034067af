#include "reports/html/dialogue_data.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <tuple>
#include <unordered_map>

#include "harness/store/cell.h"
#include "reports/answers.h"
#include "reports/escape.h"
#include "reports/number_text.h"

namespace turnbench {
namespace {

/// Distinct texts, in the order of their first use.
class TextPool {
 public:
  std::size_t add(const std::string& text) {
    const auto [found, is_new] = places_.try_emplace(text, texts_.size());
    if (is_new) {
      texts_.push_back(text);
      bytes_ += text.size();
    }
    return found->second;
  }
  const std::vector<std::string>& texts() const { return texts_; }
  std::size_t bytes() const { return bytes_; }

 private:
  std::unordered_map<std::string, std::size_t> places_;
  std::vector<std::string> texts_;
  std::size_t bytes_ = 0;
};

/// The scores of turns as texts, by metric.
class ScoreTexts {
 public:
  ScoreTexts(const Store& store, const std::vector<MetricResults>& metrics) {
    for (const MetricResults& metric : metrics) {
      const ScoreChoice& choice = metric.results.score_choice();
      const TableValue& unit = metric.results.unit_of("score");
      auto& scores = scores_.emplace_back();
      if (choice.metric.empty()) continue;  // answers have these
      for (const ScoredTurn& turn : store.scores(metric.results.manifest().name, choice)) {
        if (turn.status == Record::Status::kOk) {
          scores[{turn.cell, turn.dialogue, turn.turn}] =
              number_text(unit.scale * turn.score, unit.digits);
        }
      }
    }
    if (metrics.front().results.score_choice().metric.empty())
      own_digits_ = metrics.front().results.unit_of("score").digits;
  }

  /// One text for each metric, "" if there is no such score.
  std::vector<std::string> of(const MethodAnswer& answer, const std::string& dialogue,
                              int turn) const {
    std::vector<std::string> out;
    for (const auto& scores : scores_) {
      const auto found = scores.find({answer.cell, dialogue, turn});
      out.push_back(found == scores.end() ? "" : found->second);
    }
    if (own_digits_ && answer.score) out.front() = number_text(*answer.score, *own_digits_);
    return out;
  }

 private:
  std::vector<std::map<std::tuple<std::string, std::string, int>, std::string>> scores_;
  std::optional<int> own_digits_;  // of the first metric, if it is the cells' own
};

}  // namespace

std::optional<std::string> dialogue_data(const Store& store,
                                         const std::vector<MetricResults>& metrics,
                                         std::size_t most) {
  constexpr std::size_t kBytesOfAnswer = 20;  // of the numbers, without texts
  const Results& results = metrics.front().results;
  const std::vector<Cell>& cells = results.cells();
  if (std::all_of(cells.begin(), cells.end(), is_probe)) return "";
  std::size_t answers = 0;
  for (const Cell& cell : cells) answers += results.stratum(cell.key, -1).turns.size();
  if (kBytesOfAnswer * answers > most) return std::nullopt;  // without reading them
  OrderedJson out = {{"metrics", OrderedJson::array()}, {"cells", OrderedJson::array()}};
  for (const MetricResults& metric : metrics) out["metrics"].push_back(metric.name);
  std::map<std::pair<std::string, std::string>, std::size_t> places;  // by key and method
  for (const Cell& c : cells) {
    places[{c.key, c.method}] = out["cells"].size();
    out["cells"].push_back({c.model, c.dataset, c.position, c.method, c.history, c.answers});
  }
  const ScoreTexts scores(store, metrics);
  TextPool pool;
  OrderedJson turns = OrderedJson::array();
  answers = 0;
  const auto is_full = [&] { return pool.bytes() + kBytesOfAnswer * answers > most; };
  AnswersRequest request;
  request.experiment = results.manifest().name;
  for_each_answered_turn(store, request, [&](const AnsweredTurn& turn) {
    if (is_full()) return;
    OrderedJson references = OrderedJson::array(), of_methods = OrderedJson::array();
    for (const std::string& reference : turn.references) references.push_back(pool.add(reference));
    for (const MethodAnswer& a : turn.answers) {
      const bool answered = a.status == "ok" || !a.answer.empty();  // or not scored, but present
      of_methods.push_back({places.at({a.cell, a.method}),
                            answered ? OrderedJson(pool.add(a.answer)) : OrderedJson(-1),
                            scores.of(a, turn.dialogue, turn.turn),
                            a.tokens ? OrderedJson(*a.tokens) : OrderedJson(nullptr),
                            a.finish_reason == "length" ? 1 : 0, a.status,
                            a.error.empty() ? OrderedJson(-1) : OrderedJson(pool.add(a.error))});
    }
    answers += turn.answers.size();
    turns.push_back({pool.add(turn.dialogue), turn.turn, pool.add(turn.question),
                     std::move(references), std::move(of_methods)});
  });
  if (is_full()) return std::nullopt;
  out["texts"] = pool.texts();
  out["turns"] = std::move(turns);
  return escape_script(out.dump(-1, ' ', false, OrderedJson::error_handler_t::replace));
}

}  // namespace turnbench
