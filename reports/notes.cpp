#include "reports/notes.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "common/json.h"
#include "common/text.h"
#include "harness/store/cell.h"
#include "harness/store/inactive_methods.h"

namespace turnbench {
namespace {

/// Number of turns on which nothing could be measured.  A cell with several labels counts once.
int turns_without_value(const Results& results) {
  int out = 0;
  std::set<std::string> seen;
  for (const Cell& cell : results.cells()) {
    if (seen.insert(cell.key).second) out += results.stratum(cell.key, -1).without_value;
  }
  return out;
}

/// Names the kinds of backends, "cpu" and "cuda", if results are from several; otherwise "".
std::string backends_note(const Results& results) {
  std::set<std::string> kinds;
  for (const std::string& card : results.environments()) {
    const Json json = Json::parse(card, nullptr, false);
    if (!json.is_object() || !json.contains("backend") || !json["backend"].is_string()) continue;
    const auto backend = json["backend"].get<std::string>();
    kinds.insert(backend.substr(0, backend.find_first_of(":,")));
  }
  if (kinds.size() < 2) return "";
  return fmt::format("The results are from several backends ({}), which round differently.",
                     join(kinds, ", "));
}

/// "mtbench 12 of 16": for each dataset, its turns without a reference, among those that a cell
/// has.
std::vector<std::string> unreferenced_turns(const Results& results) {
  std::vector<std::string> datasets;
  std::map<std::string, std::pair<std::size_t, std::size_t>> most;  // without a reference, total
  for (const Cell& cell : results.cells()) {
    const Stratum& s = results.stratum(cell.key, -1);
    const auto without = static_cast<std::size_t>(s.without_reference);
    if (without == 0) continue;
    const auto [found, is_new] = most.try_emplace(cell.dataset);
    if (is_new) datasets.push_back(cell.dataset);
    const std::size_t others =
        s.turns.size() + static_cast<std::size_t>(s.without_value + s.failed);
    found->second = std::max(found->second, {without, without + others});
  }
  std::vector<std::string> out;
  for (const std::string& dataset : datasets) {
    const auto [without, all] = most.at(dataset);
    out.push_back(fmt::format("{} {} of {}", dataset, without, all));
  }
  return out;
}

bool has_ranges(const std::vector<Pivot>& pivots) {
  return std::any_of(pivots.begin(), pivots.end(), [](const Pivot& p) {
    return std::any_of(p.counters.begin(), p.counters.end(), [](const auto& row) {
      return std::any_of(row.begin(), row.end(),
                         [](const auto& c) { return c.second.low != c.second.high; });
    });
  });
}

}  // namespace

std::string caption(const std::vector<Pivot>& pivots, const std::string& differences, bool counters,
                    const EntryColumns& columns, bool scales) {
  const auto shares = std::count_if(pivots.begin(), pivots.end(),
                                    [&](const Pivot& p) { return scales && p.shows_shares(); });
  std::string out = shares == std::ssize(pivots) ? "Means x100" : "Means";
  const bool intervals =
      columns.interval &&
      std::any_of(pivots.begin(), pivots.end(), [](const Pivot& p) { return p.has_intervals(); });
  out += intervals ? " with 95% intervals over dialogues" : " over dialogues";
  if (shares > 0 && shares < std::ssize(pivots)) out += ", scores x100";
  const auto compared = std::find_if(pivots.begin(), pivots.end(),
                                     [](const Pivot& p) { return p.has_differences(); });
  if (compared != pivots.end() && columns.difference) {
    const Comparison& comparison = compared->comparison;
    const bool several = std::any_of(pivots.begin(), pivots.end(), [](const Pivot& p) {
      return p.has_differences() && p.baselines.size() > 1;
    });
    out += fmt::format(
        "; {} the paired {} named under the table, with {}{} p (sign flips, adjusted for all "
        "differences of the table by {})",
        differences,
        several ? "differences to the methods that are" : "difference to the method that is",
        !intervals ? ""
        : several  ? "their interval and "
                   : "its interval and ",
        several ? "their" : "its",
        comparison.adjustment == Adjustment::kHolm ? "Holm's method" : "step-down maxT");
  }
  const auto equivalent = std::find_if(pivots.begin(), pivots.end(), [&](const Pivot& p) {
    return (columns.difference && p.has_equivalence()) ||
           (columns.published && p.has_published_equivalence());
  });
  if (equivalent != pivots.end()) {
    out += fmt::format("; equivalence: p of two one-sided tests, within {} points",
                       equivalent->comparison.margin);
  }
  out += ".";
  if (columns.interval && !intervals) out += " Intervals need two dialogues of each dataset.";
  if (equivalent == pivots.end() && compared != pivots.end() && compared->comparison.margin > 0)
    out += " Equivalence is tested for scores with two dialogues of each dataset.";
  if (!counters) return out;
  std::vector<std::string> meanings;
  for (const ReportedCounter& c : reported_counters()) {
    if (std::any_of(pivots.begin(), pivots.end(), [&](const Pivot& p) { return p.shows(c); }))
      meanings.push_back(fmt::format("{}: {}", c.heading, c.meaning));
  }
  if (meanings.empty()) return out;
  out += " " + join(meanings, "; ") + ".";
  if (has_ranges(pivots)) out += " From–to where a row has several methods or histories.";
  return out;
}

std::string progress_note(const Results& results) {
  return progress_note(results, results.cells());
}

std::string progress_note(const Results& results, const std::vector<Cell>& cells) {
  struct Range {
    std::size_t least = 0, most = 0, total = 0;
  };
  std::vector<std::string> datasets;
  std::map<std::string, Range> ranges;
  for (const Cell& cell : cells) {
    const CellProgress& progress = results.progress(cell);
    const auto [found, first] =
        ranges.try_emplace(cell.dataset, Range{progress.run, progress.run, progress.total});
    if (first) datasets.push_back(cell.dataset);
    Range& range = found->second;
    range.least = std::min(range.least, progress.run);
    range.most = std::max(range.most, progress.run);
    range.total = std::max(range.total, progress.total);
  }
  std::vector<std::string> partial;
  for (const std::string& dataset : datasets) {
    const Range& range = ranges[dataset];
    if (range.least == range.total) continue;
    const std::string done = range.least == range.most
                                 ? std::to_string(range.least)
                                 : fmt::format("{} to {}", range.least, range.most);
    partial.push_back(fmt::format("{} {} of {}", dataset, done, range.total));
  }
  if (partial.empty()) return "";
  return "Partial: " + join(partial, ", ") + " dialogues.";
}

std::string stale_note(const Results& results) {
  if (results.stale().empty()) return "";
  return fmt::format("Stale: {}; turnbench run recomputes them.", describe(results.stale()));
}

std::vector<std::string> warnings(const Results& results) {
  std::vector<std::string> out = notes(results);
  const std::string& smoke = results.manifest().smoke;
  if (!smoke.empty()) out.insert(out.begin(), smoke);
  return out;
}

std::vector<std::string> notes(const Results& results) {
  std::vector<std::string> out;
  const std::size_t own = results.pending(),
                    imported = results.pending(/*imported=*/true);  // will not be computed
  std::string pending;
  if (own > 0) {
    pending = fmt::format(
        "Dialogues that have not run in every cell yet: {}; turnbench run continues with them. ",
        own);
  }
  if (imported > 0)
    pending += fmt::format("Dialogues without imported predictions of all turns: {}. ", imported);
  if (!pending.empty()) out.push_back(pending + progress_note(results));
  if (std::string stale = stale_note(results); !stale.empty()) out.push_back(std::move(stale));
  if (results.lacks_text_hashes())
    out.emplace_back(
        "The store does not tell which dialogues share texts; they count as independent.");
  if (results.manifest().isolated && results.environments().size() > 1) {
    out.push_back(fmt::format(
        "Times and peaks are from {} builds, machines or numbers of threads and may not "
        "be comparable.",
        results.environments().size()));
  }
  if (std::string backends = backends_note(results); !backends.empty())
    out.push_back(std::move(backends));
  if (results.truncation().cut > 0) out.push_back(describe(results.truncation()) + ".");
  const std::string limited = describe_limited(results.cells(), results.usages());
  if (!limited.empty()) out.push_back(limited + ".");
  for (const std::string& line : inactive_methods(results.cells(), results.usages()))
    out.push_back(line + ".");
  if (!results.failures().empty())
    out.push_back(
        fmt::format("{} records failed; turnbench status DB lists them, turnbench status DB retry "
                    "runs them again.",
                    results.failures().size()));
  if (const int turns = turns_without_value(results); turns > 0) {
    const std::string chosen = name_of(results.score_choice());
    out.push_back(
        chosen.empty()
            ? fmt::format(
                  "{} turns have no value: they were not asked, or a probe had nothing to measure.",
                  turns)
            : fmt::format("{} turns have no value of {}.", turns, chosen));
  }
  for (const std::string& unparsed : results.unparsed_judgements()) out.push_back(unparsed + ".");
  if (const std::vector<std::string> turns = unreferenced_turns(results); !turns.empty())
    out.push_back("Turns without a reference have no score: " + join(turns, ", ") + ".");
  const std::vector<std::string>& published = results.published_problems();
  out.insert(out.end(), published.begin(), published.end());
  return out;
}

}  // namespace turnbench
