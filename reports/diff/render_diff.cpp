#include "reports/diff/render_diff.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "common/text.h"
#include "reports/diff/cell_pairs.h"
#include "reports/escape.h"
#include "reports/estimate_json.h"
#include "reports/number_text.h"

namespace turnbench {
namespace {

std::string name_of(const Run& run) {
  return run.store->path() + ", " + run.experiment;
}

std::string table_head(const std::vector<std::string>& texts,
                       const std::vector<std::string>& numbers) {
  std::vector<std::string> names = texts;
  names.insert(names.end(), numbers.begin(), numbers.end());
  std::string line = "|";
  for (std::size_t i = 0; i < names.size(); ++i) line += i < texts.size() ? " --- |" : " ---: |";
  return markdown_row(names) + line + "\n";
}

std::string protocol_markdown(const RunDiff& diff, bool all_fields) {
  const std::vector<FieldDifference>& fields = diff.protocol;
  if (diff.pairs.empty()) return "";
  if (fields.empty())
    return markdown_paragraph("The protocols are equal, sources and builds too.") + "\n\n";
  const FieldDifference::Values& values = fields.front().values.front();
  std::string first =
      fmt::format("The protocols differ in {}: {} in A, {} in B ({} of {}).", fields.front().field,
                  values.first, values.second, values.cells, counted(diff.pairs.size(), "cell"));
  if (!all_fields && fields.size() > 1) {
    first += fmt::format(" {} more: --all shows {}.", counted(fields.size() - 1, "field"),
                         fields.size() == 2 ? "it" : "them");
  }
  std::string out = markdown_paragraph(first) + "\n\n";
  if (!all_fields) return out;
  out += table_head({"field", "A", "B"}, {"cells"});
  for (const FieldDifference& field : fields) {
    for (const FieldDifference::Values& v : field.values) {
      out += markdown_row({escape_markdown(field.field), escape_markdown(v.first),
                           escape_markdown(v.second), std::to_string(v.cells)});
    }
  }
  return out + "\n";
}

/// The labels that distinguish the pairs, and the method.
std::vector<CellLabel> shown_labels(const RunDiff& diff) {
  std::vector<CellLabel> out;
  for (const CellLabel& label : kCellLabels) {
    bool varies = label.value == &Cell::method;
    for (const CellPair& pair : diff.pairs) {
      const std::string& any = diff.pairs.front().first.*label.value;
      varies |= pair.first.*label.value != any || pair.second.*label.value != any;
    }
    if (varies) out.push_back(label);
  }
  return out;
}

std::string score_text(const Estimate& estimate, int digits) {
  return estimate.known ? number_text(estimate.mean, digits) : "–";
}

std::string difference_text(const CellPair& pair, int digits) {
  if (!pair.difference) return "–";
  const Difference& d = *pair.difference;
  return fmt::format("{}, {}", estimate_text(d.estimate, digits, /*sign=*/true), tests_text(d));
}

std::string cells_markdown(const RunDiff& diff) {
  const std::vector<CellLabel> labels = shown_labels(diff);
  std::vector<std::string> texts;
  for (const CellLabel& label : labels) texts.emplace_back(label.name);
  std::string out = table_head(texts, {"dialogues", "turns", "other prompts", "other answers", "A",
                                       "B", "B - A", "other counters"});
  const int digits = diff.value.digits;
  for (const CellPair& pair : diff.pairs) {
    if (!pair.differs()) continue;
    std::vector<std::string> row;
    for (const CellLabel& label : labels) {
      const std::string &first = pair.first.*label.value, &second = pair.second.*label.value;
      row.push_back(escape_markdown(first == second ? first : first + " / " + second));
    }
    row.insert(row.end(),
               {std::to_string(pair.dialogues), std::to_string(pair.turns),
                std::to_string(pair.prompts), std::to_string(pair.answers),
                score_text(pair.first_score, digits), score_text(pair.second_score, digits),
                difference_text(pair, digits), escape_markdown(join(pair.counters, ", "))});
    out += markdown_row(row);
  }
  return out;
}

std::string full_name(const Cell& cell) {
  std::vector<std::string> labels;
  for (const CellLabel& label : kCellLabels) labels.push_back(cell.*label.value);
  return join(labels, ", ");
}

std::string only_in(const char* run, const std::vector<Cell>& cells) {
  constexpr std::size_t kNamed = 8;
  std::vector<std::string> names;
  for (std::size_t i = 0; i < std::min(cells.size(), kNamed); ++i)
    names.push_back(full_name(cells[i]));
  if (cells.size() > kNamed) names.push_back(fmt::format("{} more", cells.size() - kNamed));
  return fmt::format("Only in {}: {}.", run, join(names, "; "));
}

/// The number of pairs that have common turns.
std::size_t compared_pairs(const RunDiff& diff) {
  return static_cast<std::size_t>(std::count_if(diff.pairs.begin(), diff.pairs.end(),
                                                [](const CellPair& p) { return p.turns > 0; }));
}

std::string headline(const RunDiff& diff, std::size_t differ) {
  const std::size_t compared = compared_pairs(diff);
  if (compared == 0) return "No cell can be compared.";
  const bool all = compared == diff.pairs.size();
  return fmt::format("{} of {} differ.", differ, counted(compared, all ? "cell" : "compared cell"));
}

/// The lines below the table.
std::vector<std::string> notes_of(const RunDiff& diff, std::size_t differ) {
  std::vector<std::string> out;
  const std::size_t same = compared_pairs(diff) - differ;
  const std::size_t apart = diff.pairs.size() - compared_pairs(diff);
  int only_first = 0, only_second = 0, other_content = 0;
  for (const CellPair& pair : diff.pairs) {
    only_first += pair.only_first;
    only_second += pair.only_second;
    other_content += pair.other_content;
  }
  const auto have = [](std::size_t cells) {
    return cells == 1 ? "1 cell has" : fmt::format("{} cells have", cells);
  };
  if (same > 0)
    out.push_back(fmt::format("{} the same answers, scores and counters in both.", have(same)));
  if (apart > 0) out.push_back(fmt::format("{} no dialogue in common.", have(apart)));
  if (only_first + only_second + other_content > 0) {
    out.push_back(
        fmt::format("Not compared, dialogues counted cell by cell: {} only in A, {} only in B, {} "
                    "with the same "
                    "id but other content.",
                    only_first, only_second, other_content));
  }
  if (!diff.only_first.empty()) out.push_back(only_in("A", diff.only_first));
  if (!diff.only_second.empty()) out.push_back(only_in("B", diff.only_second));
  if (differ > 0) {
    out.push_back(fmt::format(
        "A and B: mean {} on the turns that both have a score for, of dialogues with the same id "
        "and content. B - A: paired, with its 95% interval over dialogues and its p by sign "
        "flips, adjusted for the differences of all {}.",
        diff.value.is_share() ? "score x100" : "value", counted(diff.pairs.size(), "cell")));
  }
  return out;
}

OrderedJson side_json(const Cell& cell, const Estimate& estimate) {
  OrderedJson out;
  for (const CellLabel& label : kCellLabels) out[label.name] = cell.*label.value;
  out["metric"] = cell.metric;
  put_estimate(out, estimate);
  return out;
}

OrderedJson pair_json(const CellPair& pair) {
  return {
      {"a", side_json(pair.first, pair.first_score)},
      {"b", side_json(pair.second, pair.second_score)},
      {"differs", pair.differs()},
      {"dialogues", pair.dialogues},
      {"turns", pair.turns},
      {"dialogues_only_a", pair.only_first},
      {"dialogues_only_b", pair.only_second},
      {"dialogues_of_other_content", pair.other_content},
      {"other_prompts", pair.prompts},
      {"other_answers", pair.answers},
      {"other_scores", pair.scores},
      {"other_counters", pair.counters},
      {"difference", pair.difference ? difference_json(*pair.difference) : OrderedJson(nullptr)}};
}

OrderedJson names_json(const std::vector<Cell>& cells) {
  OrderedJson out = OrderedJson::array();
  for (const Cell& cell : cells) {
    OrderedJson& names = out.emplace_back();
    for (const CellLabel& label : kCellLabels) names[label.name] = cell.*label.value;
  }
  return out;
}

}  // namespace

std::string render_diff_markdown(const RunDiff& diff, bool all_fields) {
  const std::size_t differ = diff.cells_that_differ();
  std::string out = markdown_paragraph("A: " + name_of(diff.first)) + "\n\n" +
                    markdown_paragraph("B: " + name_of(diff.second)) + "\n\n";
  if (!diff.smoke.empty()) out += "> **" + escape_markdown(diff.smoke) + "**\n\n";
  out += protocol_markdown(diff, all_fields);
  out += "**" + headline(diff, differ) + "**\n";
  if (differ > 0) out += "\n" + cells_markdown(diff);
  for (const std::string& note : notes_of(diff, differ))
    out += "\n" + markdown_paragraph(note) + "\n";
  return out;
}

std::string render_diff_json(const RunDiff& diff) {
  const auto run = [](const Run& of) {
    return OrderedJson{{"store", of.store->path()}, {"experiment", of.experiment}};
  };
  OrderedJson out = {{"a", run(diff.first)},
                     {"b", run(diff.second)},
                     {"protocol", OrderedJson::array()},
                     {"cells_that_differ", diff.cells_that_differ()},
                     {"cells", OrderedJson::array()},
                     {"only_a", names_json(diff.only_first)},
                     {"only_b", names_json(diff.only_second)}};
  if (!diff.smoke.empty()) out["smoke"] = diff.smoke;
  for (const FieldDifference& field : diff.protocol) {
    OrderedJson values = OrderedJson::array();
    for (const FieldDifference::Values& v : field.values)
      values.push_back({{"a", v.first}, {"b", v.second}, {"cells", v.cells}});
    out["protocol"].push_back({{"field", field.field}, {"values", std::move(values)}});
  }
  for (const CellPair& pair : diff.pairs) out["cells"].push_back(pair_json(pair));
  return json_document(out);
}

}  // namespace turnbench
