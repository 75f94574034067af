#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "common/text.h"
#include "reports/escape.h"
#include "reports/leaderboard/leaderboard.h"
#include "reports/number_text.h"

namespace turnbench {
namespace {

bool has_position(const Leaderboard& board, std::optional<Difference> LeaderboardRow::*difference) {
  return std::any_of(board.rows.begin(), board.rows.end(),
                     [&](const LeaderboardRow& row) { return (row.*difference).has_value(); });
}

/// "TTFT, read": the costs for which a row is on the Pareto front.
std::string fronts_text(const LeaderboardRow& row) {
  std::vector<std::string> out;
  for (const BoardCost& cost : board_costs()) {
    if (std::find(row.fronts.begin(), row.fronts.end(), cost.name) != row.fronts.end())
      out.emplace_back(cost.heading);
  }
  return join(out, ", ");
}

/// What the ranking is based on, and what its columns mean.
std::vector<std::string> board_remarks(const Leaderboard& board) {
  std::vector<std::string> sizes, datasets, costs;
  std::map<std::string, std::vector<std::string>> names;  // by size
  for (const Leaderboard::Dataset& d : board.datasets) {
    const std::string size =
        fmt::format("{}; {}, {}", join(d.positions, ", "), counted(d.dialogues, "dialogue"),
                    counted(d.turns, "turn"));
    if (names[size].empty()) sizes.push_back(size);
    names[size].push_back(d.name);
  }
  for (const std::string& size : sizes) {
    datasets.push_back(fmt::format("{} ({}{})", join(names[size], ", "), size,
                                   names[size].size() > 1 ? " each" : ""));
  }
  for (const BoardCost& cost : board_costs()) {
    if (board.shows(cost))
      costs.push_back(fmt::format("{}: {} ({})", cost.heading, cost.meaning, cost.unit));
  }
  std::vector<std::string> out = {fmt::format("{} methods on what all of them have: {}.",
                                              board.rows.size(), join(datasets, ", "))};
  if (!costs.empty()) {
    out.push_back(join(costs, "; ") +
                  ". Pareto: no other method has at least this score at no more of the named cost, "
                  "one of the two strictly better.");
  }
  return out;
}

std::string board_table(const Leaderboard& board) {
  const bool begin = has_position(board, &LeaderboardRow::begin_minus_end),
             middle = has_position(board, &LeaderboardRow::middle_minus_end),
             budgets = std::any_of(board.rows.begin(), board.rows.end(),
                                   [](const auto&row) { return !row.budget.empty(); });
  std::vector<std::string> header = {"rank", "method"};
  if (board.has_histories) header.emplace_back("history");
  const std::size_t labels = header.size();
  header.push_back(escape_markdown(board.metric.empty() ? "score" : board.metric));
  if (begin) header.emplace_back("begin − end");
  if (middle) header.emplace_back("middle − end");
  if (budgets) header.emplace_back("budget");
  std::vector<const BoardCost*> costs;
  for (const BoardCost& cost : board_costs()) {
    if (!board.shows(cost)) continue;
    costs.push_back(&cost);
    header.emplace_back(cost.heading);
  }
  if (!costs.empty()) header.emplace_back("Pareto");
  std::string out = markdown_row(header) + "|";
  for (std::size_t i = 0; i < header.size(); ++i) {
    const bool is_text = (i > 0 && i < labels) || header[i] == "Pareto";
    out += is_text ? " --- |" : " ---: |";
  }
  out += "\n";
  const int digits = board.unit->digits;
  const auto difference = [&](const std::optional<Difference>& d) {
    return d ? estimate_text(d->estimate, digits, /*sign=*/true) : std::string();
  };
  for (const LeaderboardRow& row : board.rows) {
    std::vector<std::string> fields = {rank_text(row.rank), escape_markdown(row.method)};
    if (board.has_histories) fields.push_back(escape_markdown(row.history));
    fields.push_back(estimate_text(row.quality, digits));
    if (begin) fields.push_back(difference(row.begin_minus_end));
    if (middle) fields.push_back(difference(row.middle_minus_end));
    if (budgets) fields.push_back(escape_markdown(row.budget));
    for (const BoardCost* cost : costs) {
      const auto found = row.costs.find(cost->name);
      fields.push_back(found == row.costs.end() ? ""
                                                : number_text(found->second.mean, cost->digits));
    }
    if (!costs.empty()) fields.push_back(fronts_text(row));
    out += markdown_row(fields);
  }
  return out;
}

}  // namespace

std::string leaderboard_markdown(const std::vector<Leaderboard>& boards) {
  std::string out = "# Leaderboard\n\n";
  bool all_shares = true;
  for (const Leaderboard& board : boards) {
    all_shares &= board.unit->is_share();
    out += "**" + escape_markdown(board.model) + "**\n";
    if (!board.rows.empty()) {
      out += "\n" + board_table(board);
      for (const std::string& remark : board_remarks(board))
        out += "\n" + markdown_paragraph(remark) + "\n";
    }
    for (const std::string& note : board.notes) out += "\n" + markdown_paragraph(note) + "\n";
    if (!board.comparability.empty()) out += "\n" + std::string(kNotAlike) + "\n\n";
    for (const ComparabilityRemark& remark : board.comparability)
      out += "- " + markdown_paragraph(describe(remark)) + "\n";
    out += "\n";
  }
  return out + (all_shares ? "Means x100" : "Means") +
         " with 95% intervals over dialogues; datasets weigh the same. Rank: the ranks that the "
         "paired differences between all methods of the model support (sign flips, step-down maxT "
         "over all pairs, 95% for all ranks together). begin − end, middle − end: paired "
         "differences between positions of the question.\n";
}

}  // namespace turnbench
