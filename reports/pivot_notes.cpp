#include "reports/pivot_notes.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <vector>

#include "common/text.h"
#include "reports/first_items.h"
#include "reports/headings.h"

namespace turnbench {
namespace {

using Values = std::vector<std::string>;

bool contains(const Values& list, const std::string& value) {
  return std::find(list.begin(), list.end(), value) != list.end();
}

std::size_t dialogues_with_scores(const Stratum& stratum) {
  std::size_t out = 0;
  const std::vector<TurnValue>& turns = stratum.turns;
  for (std::size_t i = 0; i < turns.size(); ++i)
    out += i == 0 || turns[i].dialogue != turns[i - 1].dialogue;
  return out;
}

constexpr std::size_t kShownItems = 8;  // of a list in a note

/// A sentence about the table's dialogues that share texts, if there are any.
std::string texts(const TableLayout& layout) {
  std::map<const Population*, std::vector<bool>> seen;  // dialogues
  for (std::size_t r = 0; r < layout.rows().size(); ++r) {
    for (std::size_t c = 0; c < layout.columns().size(); ++c) {
      for (const TablePart& part : layout.parts(r, c)) {
        const Stratum& stratum = layout.stratum(part);
        if (stratum.population == nullptr || stratum.population->units == nullptr) continue;
        std::vector<bool>& of = seen[stratum.population.get()];
        of.resize(stratum.population->ids.size());
        for (const TurnValue& turn : stratum.turns) of[turn.dialogue] = true;
      }
    }
  }
  std::map<std::pair<const Units*, std::uint32_t>, std::size_t> sizes;  // of units, in dialogues
  for (const auto& [population, of] : seen) {
    for (std::size_t i = 0; i < of.size(); ++i) {
      if (of[i]) ++sizes[{population->units.get(), population->unit_of[i]}];
    }
  }
  std::size_t dialogues = 0, units = 0;
  for (const auto& [unit, size] : sizes) {
    if (size < 2) continue;
    dialogues += size;
    ++units;
  }
  if (units == 0) return "";
  return fmt::format(" {} of them share texts and form {} of intervals and p.", dialogues,
                     counted(units, "unit"));
}

/// The number of dialogues with scores in the parts of the table.
std::string dialogues(const TableLayout& layout) {
  struct Range {
    std::size_t least = 0, most = 0;
    std::string text() const {
      return least == most ? std::to_string(least) : fmt::format("{} to {}", least, most);
    }
  };
  Values names;
  std::map<std::string, Range> ranges;
  for (std::size_t r = 0; r < layout.rows().size(); ++r) {
    for (std::size_t c = 0; c < layout.columns().size(); ++c) {
      for (const TablePart& part : layout.parts(r, c)) {
        const std::size_t count = dialogues_with_scores(layout.stratum(part));
        if (count == 0) continue;
        const auto [found, first] = ranges.try_emplace(part.cell->dataset, Range{count, count});
        if (first) names.push_back(part.cell->dataset);
        found->second.least = std::min(found->second.least, count);
        found->second.most = std::max(found->second.most, count);
      }
    }
  }
  if (names.empty()) return "";
  const bool alike = std::all_of(names.begin(), names.end(), [&](const std::string& name) {
    return ranges[name].text() == ranges[names.front()].text();
  });
  if (alike && names.size() > 1) {
    return fmt::format("Dialogues: {} of each of {} datasets.{}", ranges[names.front()].text(),
                       names.size(), texts(layout));
  }
  Values each;
  for (const std::string& name : names)
    each.push_back(fmt::format("{} {}", name, ranges[name].text()));
  return "Dialogues: " + join(each, ", ") + "." + texts(layout);
}

/// The meaning of a value in the title of its table; "" for the cells' own scores.
std::string meaning_of(const Results& results, const std::string& value) {
  const TableValue& unit = results.unit_of(value);
  if (unit.name != "score") return fmt::format("{} ({})", unit.meaning, unit.unit);
  return value == "score" ? name_of(results.score_choice()) : value;
}

/// The names of a table's values with their units: "score (x100), kl (nats a token)".
std::string units_of(const TableLayout& layout) {
  Values out;
  const std::string chosen = name_of(layout.results().score_choice());
  for (const std::string& value : layout.spec().values) {
    const std::string by = value == "score" && !chosen.empty() ? " by " + chosen : "";
    out.push_back(fmt::format("{}{} ({})", value, by, layout.results().unit_of(value).unit));
  }
  return join(out, ", ");
}

/// Explains the values of a table that has several.
void add_meanings(const TableLayout& layout, Pivot& pivot) {
  if (layout.spec().values.size() < 2) return;
  Values out;
  for (const std::string& value : layout.spec().values) {
    const TableValue& unit = layout.results().unit_of(value);
    if (unit.name != "score") out.push_back(fmt::format("{}: {}", value, unit.meaning));
  }
  if (!out.empty()) pivot.notes.push_back(join(out, "; ") + ".");
}

/// Names the values that only some cells have, if others have blank entries.
void add_blanks(const TableLayout& layout, Pivot& pivot) {
  for (std::size_t v = 0; v < pivot.values.size(); ++v) {
    const TableValue& unit = *pivot.values[v];
    bool has_blanks = false;  // for entries that should have cells
    for (std::size_t r = 0; r < pivot.rows.size(); ++r) {
      for (std::size_t c = 0; c < pivot.columns.size(); ++c) {
        const TableParts& parts = layout.parts(r, c);
        has_blanks |= !parts.empty() && *parts.front().value == layout.spec().values[v] &&
                      !pivot.entries[r][c];
      }
    }
    if (has_blanks && !unit.only_of.empty())
      pivot.notes.push_back(fmt::format("Blank: only {} have {}.", unit.only_of, unit.name));
  }
}

/// The labels of an entry's row and column.
std::string place_of(const Pivot& pivot, std::size_t row, std::size_t column) {
  return value_heading(pivot.row_dimensions, pivot.rows[row]) + ", " +
         value_heading(pivot.column_dimensions, pivot.columns[column]);
}

/// Names the methods with numbers that a rule gives no baseline.
void add_lacking_baselines(const TableLayout& layout, const std::vector<BaselineCells>& baselines,
                           Pivot& pivot) {
  for (std::size_t b = 0; b < baselines.size(); ++b) {
    Values methods;
    for (std::size_t r = 0; r < pivot.rows.size(); ++r) {
      for (std::size_t c = 0; c < pivot.columns.size(); ++c) {
        if (!pivot.entries[r][c]) continue;
        for (const Cell* cell : cells_of(layout.parts(r, c))) {
          if (!baselines[b].has_baseline(*cell) && !contains(methods, cell->method))
            methods.push_back(cell->method);
        }
      }
    }
    if (methods.empty()) continue;
    pivot.notes.push_back(fmt::format("No difference to {} for {}: no such method exists.",
                                      pivot.baselines[b], join(methods, ", ")));
  }
}

/// Names the entries with a mean whose baseline has no result.
void add_baselines_without_results(const TableLayout& layout,
                                   const std::vector<BaselineCells>& baselines, Pivot& pivot) {
  for (std::size_t b = 0; b < baselines.size(); ++b) {
    Values places;
    for (std::size_t r = 0; r < pivot.rows.size(); ++r) {
      for (std::size_t c = 0; c < pivot.columns.size(); ++c) {
        const auto& entry = pivot.entries[r][c];
        if (!entry || !entry->estimate.known || entry->differences[b]) continue;
        const std::vector<const Cell*> cells = cells_of(scorable(layout.parts(r, c)));
        const bool lacks_result = std::any_of(cells.begin(), cells.end(), [&](const Cell* cell) {
          return !is_probe(*cell) && baselines[b].has_baseline(*cell) && !baselines[b].has(*cell);
        });
        if (lacks_result) places.push_back(place_of(pivot, r, c));
      }
    }
    if (places.empty()) continue;
    pivot.notes.push_back(fmt::format("No difference to {} where it has no result: {}.",
                                      pivot.baselines[b], first_items(places, kShownItems)));
  }
}

void add_missing_parts(Pivot& pivot) {
  Values holes;
  for (std::size_t r = 0; r < pivot.rows.size(); ++r) {
    for (std::size_t c = 0; c < pivot.columns.size(); ++c) {
      const auto& e = pivot.entries[r][c];
      const bool is_hole =
          e && !e->missing.empty() && e->missing.front() != kNoValue &&
          e->missing.front() != kNotRun;  // another note counts the parts that have not run
      if (is_hole)
        holes.push_back(fmt::format("{} lacks {}", place_of(pivot, r, c), join(e->missing, ", ")));
    }
  }
  if (!holes.empty()) {
    pivot.notes.push_back(
        "No mean (–) where a part of it is missing: " + first_items(holes, kShownItems) + ".");
  }
}

/// Counts the dialogues of each turn, if a table by turn has dialogues with fewer turns.
void add_shorter_dialogues(const TableLayout& layout, Pivot& pivot) {
  if (!contains(pivot.row_dimensions, "turn") && !contains(pivot.column_dimensions, "turn")) return;
  std::map<std::string, const Cell*> datasets;     // any cell, by the dataset's label
  std::set<std::pair<std::string, int>> scorable;  // with these turns
  for (std::size_t r = 0; r < pivot.rows.size(); ++r) {
    for (std::size_t c = 0; c < pivot.columns.size(); ++c) {
      for (const TablePart& part : layout.parts(r, c)) {
        if (!part.has_reference) continue;
        datasets.try_emplace(part.cell->dataset, part.cell);
        scorable.emplace(part.cell->dataset, part.turn);
      }
    }
  }
  const Results& results = layout.results();
  int all = 0;
  for (const auto& [name, cell] : datasets) all += results.turn_count(*cell, 0);
  Values turns;
  for (int turn = 0; turn < results.turns(); ++turn) {
    int count = 0;
    Values without;
    for (const auto& [name, cell] : datasets) {
      const int own = scorable.contains({name, turn}) ? results.turn_count(*cell, turn) : 0;
      count += own;
      if (own == 0) without.push_back(name);
    }
    if (count == 0 || count == all) continue;
    turns.push_back(fmt::format("turn {}: {} of {} dialogues{}", turn + 1, count, all,
                                without.empty() ? "" : ", none of " + join(without, ", ")));
  }
  if (!turns.empty())
    pivot.notes.push_back("Not all dialogues have all turns: " + first_items(turns, kShownItems) +
                          ".");
}

void add_published_notes(Pivot& pivot) {
  Values remarks;                         // in the order of their first entry
  std::map<std::string, Values> entries;  // by remark
  for (std::size_t r = 0; r < pivot.rows.size(); ++r) {
    for (std::size_t c = 0; c < pivot.columns.size(); ++c) {
      const auto& e = pivot.entries[r][c];
      if (!e) continue;
      for (const std::string& remark : e->published_notes) {
        if (!contains(remarks, remark)) remarks.push_back(remark);
        const std::string place = place_of(pivot, r, c);
        if (!contains(entries[remark], place)) entries[remark].push_back(place);
      }
    }
  }
  for (const std::string& remark : remarks)
    pivot.notes.push_back(
        fmt::format("The paper's number for {}: {}", join(entries[remark], "; "), remark));
}

}  // namespace

std::string title_of(const TableLayout& layout) {
  const TableSpec& spec = layout.spec();
  const std::string meaning =
      spec.values.size() > 1 ? units_of(layout) : meaning_of(layout.results(), spec.values.front());
  if (meaning.empty()) return spec.title;
  return spec.title + (spec.title.empty() ? "" : ": ") + meaning;
}

std::string basis_of(const TableLayout& layout, const Pivot& pivot) {
  std::string out = dialogues(layout);
  if (!pivot.averages.empty()) out += (out.empty() ? "" : " ") + describe(pivot.averages);
  return out;
}

void add_notes(const TableLayout& layout, const std::vector<BaselineCells>& baselines,
               Pivot& pivot) {
  add_meanings(layout, pivot);
  add_blanks(layout, pivot);
  add_lacking_baselines(layout, baselines, pivot);
  add_baselines_without_results(layout, baselines, pivot);
  add_missing_parts(pivot);
  add_shorter_dialogues(layout, pivot);
  add_published_notes(pivot);
}

}  // namespace turnbench
