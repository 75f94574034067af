#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "cli/cli.h"
#include "cli/input_output.h"
#include "common/error.h"
#include "common/text.h"
#include "harness/store/method_filter.h"

namespace turnbench {
namespace {

struct ForgetOptions {
  std::string db, method, experiment;
  bool dry_run = false;
};

/// The results to delete: distinct cells, and their contents by experiment and method.  A cell of
/// several experiments appears in the line of each.
struct Forgetting {
  struct Line {
    std::string experiment, method;
    std::size_t cells = 0;
    Store::RowCounts held;
  };
  std::vector<Line> lines;
  std::vector<std::string> cells;
  std::size_t records = 0, shared = 0;  ///< shared: cells kept for other experiments

  Forgetting(const Store& store, const ForgetOptions& o) {
    const std::vector<Store::CellUse> uses = store.cell_uses();
    const MethodFilter filter(o.method);
    std::set<std::string> asked, others;  // others: cells of experiments that are kept
    for (const Store::CellUse& use : uses) {
      if (!o.experiment.empty() && use.experiment != o.experiment) others.insert(use.cell.key);
      if (o.method.empty() ? use.experiment == o.experiment : filter.matches(use.cell))
        asked.insert(use.cell.key);
    }
    std::map<std::pair<std::string, std::string>, std::size_t> places;
    std::set<std::string> seen, counted;
    for (const Store::CellUse& use : uses) {
      const std::string& key = use.cell.key;
      if (!asked.contains(key)) continue;
      const bool is_new = seen.insert(key).second;
      if (others.contains(key)) {
        shared += is_new;
        continue;
      }
      const Store::RowCounts held = store.row_counts(key);
      if (is_new) {
        cells.push_back(key);
        records += held.records;
      }
      const auto [place, first] =
          places.try_emplace({use.experiment, use.cell.method}, lines.size());
      if (first) lines.push_back({use.experiment, use.cell.method, 0, {}});
      // Versions of a manifest, and two labels of one dataset, may name a cell repeatedly.
      if (!counted.insert(fmt::format("{} {}", place->second, key)).second) continue;
      Line& line = lines[place->second];
      ++line.cells;
      line.held.records += held.records;
      line.held.scores += held.scores;
      line.held.judgements += held.judgements;
    }
    std::erase_if(lines, [](const Line& line) { return line.held.records == 0; });
  }
};

/// Rejects a method without results in the store.
void require_any(const Store& store, const ForgetOptions& o, const Forgetting& what) {
  if (!o.experiment.empty()) return;  // its plan is deleted, even without results
  if (what.records > 0) return;
  std::set<std::string> known;
  for (const Store::CellUse& use : store.cell_uses()) {
    if (store.row_counts(use.cell.key).records > 0) known.insert(use.cell.method);
  }
  throw input_error(
      "{}: found no results of \"{}\", expected {}", o.db, printable(o.method),
      known.empty() ? std::string("a store that has some") : nearest_methods(o.method, known));
}

OrderedJson to_json(const Forgetting& what, bool dry_run) {
  OrderedJson out = {{"dry_run", dry_run},
                     {"records", what.records},
                     {"cells", what.cells.size()},
                     {"shared_cells_kept", what.shared},
                     {"results", OrderedJson::array()}};
  for (const Forgetting::Line& line : what.lines) {
    out["results"].push_back({{"experiment", line.experiment},
                              {"method", line.method},
                              {"cells", line.cells},
                              {"records", line.held.records},
                              {"scores", line.held.scores},
                              {"judgements", line.held.judgements}});
  }
  return out;
}

void print(const Forgetting& what) {
  for (const Forgetting::Line& line : what.lines) {
    fmt::print("{}: {}: {} records in {} cells, {} scores, {} judgements\n",
               line.experiment.empty() ? "in no experiment" : line.experiment,
               printable(line.method), line.held.records, line.cells, line.held.scores,
               line.held.judgements);
  }
  if (what.shared > 0) fmt::print("{} cells are kept: other experiments share them\n", what.shared);
}

/// The file keeps its size if there is no space for a copy, or while another program reads it.
void shrink(Store& store, bool quiet) {
  std::string said;
  try {
    const auto [before, after] = store.shrink();
    said = fmt::format("{} KiB, {} KiB before", after >> 10, before >> 10);
  } catch (const Error& error) {
    said = fmt::format("keeps its size ({})", error.what());
  }
  if (!quiet) fmt::print(stderr, "{}: {}\n", printable(store.path()), said);
}

void forget(const ForgetOptions& o, const CommonOptions& common) {
  if (o.method.empty() == o.experiment.empty())
    throw input_error("forget: found no --method and no --experiment, expected one of them");
  Store store = o.dry_run ? Store::open(o.db) : Store::open_to_write(o.db);
  if (!o.experiment.empty()) store.manifest(o.experiment);  // throws for an unknown name
  const Forgetting what(store, o);
  require_any(store, o, what);
  if (common.json) {
    fmt::print("{}\n", dump(to_json(what, o.dry_run)));
  } else {
    print(what);
  }
  std::fflush(stdout);  // printed before the deletion
  if (!o.dry_run) store.forget(what.cells, o.experiment);
  if (!common.json) {
    fmt::print("{} records {}\n", what.records,
               o.dry_run ? "would be forgotten; nothing was changed" : "forgotten");
  }
  if (!o.dry_run) shrink(store, common.quiet);
}

}  // namespace

void add_forget_command(CLI::App& app, const CommonOptions& common) {
  auto o = std::make_shared<ForgetOptions>();
  CLI::App* command = app.add_subcommand(
      "forget", "List results of a store and delete them; `run` computes them again");
  command->footer(
      "Examples:\n"
      "  turnbench forget results.db --method snapkv --dry-run\n"
      "  turnbench forget results.db --method snapkv:budget=512   # this setting alone\n"
      "  turnbench forget results.db --experiment first           # with its plan\n"
      "Scores and judgements are deleted with their answers.  --experiment keeps results that "
      "other\n"
      "experiments share; --method deletes them everywhere.");
  command->add_option("db", o->db, "store")->required();
  CLI::Option* method = command->add_option(
      "--method", o->method,
      "a label, a method with its settings, or a method's name (all settings); in all experiments");
  command->add_option("--experiment", o->experiment, "experiment to delete, with its plan")
      ->excludes(method);
  command->add_flag("--dry-run", o->dry_run, "only list what would be deleted");
  command->callback([o, &common] { forget(*o, common); });
}

}  // namespace turnbench
