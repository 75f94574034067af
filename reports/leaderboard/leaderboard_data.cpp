#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "common/text.h"
#include "reports/escape.h"
#include "reports/estimate_json.h"
#include "reports/leaderboard/leaderboard.h"

namespace turnbench {
namespace {

OrderedJson position_json(const std::optional<Difference>& difference) {
  return difference ? difference_json(*difference) : OrderedJson(nullptr);
}

OrderedJson row_json(const Leaderboard& board, const LeaderboardRow& row) {
  OrderedJson out = {
      {"rank", {{"best", row.rank.best}, {"worst", row.rank.worst}}},
      {"method", row.method},
      {"settings", row.settings},
      {"history", row.history},
      {"budget", row.budget.empty() ? OrderedJson(nullptr) : OrderedJson(row.budget)}};
  put_estimate(out, row.quality);
  out["n"] = row.quality.dialogues;
  out["units"] = row.quality.units;
  out["turns"] = row.quality.turns;
  out["begin_minus_end"] = position_json(row.begin_minus_end);
  out["middle_minus_end"] = position_json(row.middle_minus_end);
  out["costs"] = OrderedJson::object();
  for (const BoardCost& cost : board_costs()) {
    if (!board.shows(cost)) continue;
    const auto found = row.costs.find(cost.name);
    OrderedJson& json = out["costs"][cost.name] = nullptr;
    if (found == row.costs.end()) continue;
    json = {{"unit", cost.unit}};
    put_estimate(json, found->second);
  }
  out["pareto"] = row.fronts;
  return out;
}

OrderedJson board_json(const Leaderboard& board) {
  OrderedJson out = {
      {"model", board.model},
      {"metric", board.metric.empty() ? OrderedJson(nullptr) : OrderedJson(board.metric)},
      {"unit", std::string(board.unit->unit)},
      {"datasets", OrderedJson::array()},
      {"methods", OrderedJson::array()}};
  for (const Leaderboard::Dataset& d : board.datasets) {
    out["datasets"].push_back({{"dataset", d.name},
                               {"positions", d.positions},
                               {"dialogues", d.dialogues},
                               {"turns", d.turns}});
  }
  for (const LeaderboardRow& row : board.rows) out["methods"].push_back(row_json(board, row));
  out["notes"] = board.notes;
  for (const ComparabilityRemark& remark : board.comparability)
    out["notes"].push_back(std::string(kNotAlike) + " " + describe(remark));
  return out;
}

std::string exact_number(double x) {
  return fmt::format("{}", x);
}

/// Mean, low and high; empty where there is none.
void add_numbers(std::vector<std::string>& fields, const Estimate* estimate) {
  const bool known = estimate != nullptr && estimate->known;
  fields.push_back(known ? exact_number(estimate->mean) : "");
  for (const bool low : {true, false}) {
    const bool bounded = known && estimate->interval;
    fields.push_back(
        !bounded ? "" : exact_number(low ? estimate->interval->low : estimate->interval->high));
  }
}

}  // namespace

std::string leaderboard_json(const std::vector<Leaderboard>& boards) {
  OrderedJson out = {{"leaderboards", OrderedJson::array()}};
  for (const Leaderboard& board : boards) out["leaderboards"].push_back(board_json(board));
  return json_document(out);
}

std::string leaderboard_csv(const std::vector<Leaderboard>& boards) {
  std::vector<std::string> header = {"model",    "best rank", "worst rank", "method",
                                     "settings", "history",   "budget"};
  const auto add_columns = [&](const std::string& name) {
    for (const char* suffix : {"", " low", " high"}) header.push_back(name + suffix);
  };
  add_columns("score");
  header.insert(header.end(), {"dialogues", "turns"});
  for (const char* name : {"begin minus end", "middle minus end"}) {
    add_columns(name);
    header.push_back(std::string(name) + " p");
    header.push_back(std::string(name) + " p adjusted");
  }
  for (const BoardCost& cost : board_costs()) add_columns(cost.name);
  header.insert(header.end(), {"pareto", "units"});
  std::string out = join(header, ",") + "\n";
  for (const Leaderboard& board : boards) {
    for (const LeaderboardRow& row : board.rows) {
      std::vector<std::string> fields = {csv_field(board.model), std::to_string(row.rank.best),
                                         std::to_string(row.rank.worst)};
      for (const std::string& text : {row.method, row.settings, row.history, row.budget})
        fields.push_back(csv_field(text));
      add_numbers(fields, &row.quality);
      fields.push_back(std::to_string(row.quality.dialogues));
      fields.push_back(std::to_string(row.quality.turns));
      for (const auto* difference : {&row.begin_minus_end, &row.middle_minus_end}) {
        const bool known = difference->has_value();
        add_numbers(fields, known ? &(*difference)->estimate : nullptr);
        fields.push_back(known ? exact_number((*difference)->against_zero.p) : "");
        fields.push_back(known ? exact_number((*difference)->against_zero.adjusted) : "");
      }
      for (const BoardCost& cost : board_costs()) {
        const auto found = row.costs.find(cost.name);
        add_numbers(fields, found == row.costs.end() ? nullptr : &found->second);
      }
      fields.push_back(csv_field(join(row.fronts, " ")));
      fields.push_back(std::to_string(row.quality.units));
      out += join(fields, ",") + "\n";
    }
  }
  return out;
}

}  // namespace turnbench
