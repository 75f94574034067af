#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "cli/cli.h"
#include "cli/input_output.h"
#include "common/error.h"
#include "common/text.h"
#include "harness/store/store.h"
#include "reports/escape.h"
#include "reports/method_labels.h"

namespace turnbench {
namespace {

/// One line of the output: a step, or a layer of one.
struct Line {
  const Cell& cell;
  const std::string& dialogue;
  int turn;  ///< from 1, as in other outputs
  std::size_t step;
  std::optional<std::size_t> layer;
  LedgerEntry entry;
};

void print_csv_header(bool layers) {
  fmt::print("model,dataset,position,method,history,answers,dialogue,turn,step{}",
             layers ? ",layer" : "");
  for (const LedgerField& field : kLedgerFields) fmt::print(",{}", field.name);
  fmt::print("\n");
}

void print_csv(const Line& line) {
  fmt::print("{},{},{},{},{},{},{},{},{}", csv_field(line.cell.model), csv_field(line.cell.dataset),
             csv_field(line.cell.position), csv_field(line.cell.method), line.cell.history,
             line.cell.answers, csv_field(line.dialogue), line.turn, line.step);
  if (line.layer) fmt::print(",{}", *line.layer);
  for (const LedgerField& field : kLedgerFields) fmt::print(",{}", line.entry.*field.value);
  fmt::print("\n");
}

void print_json(const Line& line) {
  OrderedJson out = {{"model", line.cell.model},
                     {"dataset", line.cell.dataset},
                     {"position", line.cell.position},
                     {"method", line.cell.method},
                     {"history", line.cell.history},
                     {"answers", line.cell.answers},
                     {"dialogue", line.dialogue},
                     {"turn", line.turn},
                     {"step", line.step}};
  if (line.layer) out["layer"] = *line.layer;
  for (const LedgerField& field : kLedgerFields) out[field.name] = line.entry.*field.value;
  fmt::print("{}\n", dump(out));
}

/// The cells of an experiment that match any of the filters, by key.
std::map<std::string, Cell> chosen_cells(const Store& store, const std::string& experiment,
                                         const std::vector<std::string>& methods) {
  std::map<std::string, Cell> out;
  std::vector<Cell> cells = store.cells(experiment);
  std::vector<MethodFilter> filters;
  for (const std::string& method : methods) filters.push_back(named_method(method, cells));
  std::vector<bool> matched(filters.size());
  for (Cell& cell : cells) {
    bool chosen = filters.empty();
    for (std::size_t i = 0; i < filters.size(); ++i) {
      const bool matches = filters[i].matches(cell);
      matched[i] = matched[i] || matches;
      chosen |= matches;
    }
    if (chosen) out.try_emplace(cell.key, std::move(cell));
  }
  for (std::size_t i = 0; i < filters.size(); ++i) {
    if (matched[i]) continue;
    throw input_error("--method: found \"{}\", expected a method of experiment \"{}\"",
                      printable(filters[i].text()), printable(experiment));
  }
  return out;
}

}  // namespace

void add_ledger_command(CLI::App& app, const CommonOptions& common) {
  struct Options {
    std::string db, experiment;
    std::vector<std::string> methods;
    bool layers = false;
  };
  auto o = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand(
      "ledger",
      "Print each step's transfers between host and device memory, and its cache hits and misses");
  command->footer(
      "Examples:\n"
      "  turnbench ledger results.db > steps.csv\n"
      "  turnbench ledger results.db --method pqcache --layers\n"
      "CSV (with --json one object per line), one line per step of cells that ran alone "
      "(manifest:\n"
      "isolated) with keys and values in host memory; turns count from 1, step 0 is the prompt.");
  command->add_option("db", o->db, "store")->required();
  command->add_option("--experiment", o->experiment, "experiment; default: the latest");
  command
      ->add_option("--method", o->methods,
                   "only these methods: a label, a method with its settings, or a method's name "
                   "(all settings)")
      ->allow_extra_args(false);
  command->add_flag("--layers", o->layers, "one line per step and layer");
  command->callback([o, &common] {
    const Store store = Store::open(o->db);
    const std::vector<std::string> all = store.experiments();
    if (all.empty()) throw input_error("{}: found no experiment, expected at least one", o->db);
    const std::string experiment = o->experiment.empty() ? all.back() : o->experiment;
    store.manifest(experiment);  // throws for an unknown name
    const std::map<std::string, Cell> cells = chosen_cells(store, experiment, o->methods);
    if (!common.json) print_csv_header(o->layers);
    bool any = false;
    std::map<std::string, std::size_t> shortened;  // ledgers by what the store left out of them
    store.for_each_ledger(
        experiment, [&](const std::string& key, const std::string& dialogue, int turn,
                        const Ledger& ledger, const std::string& dropped) {
          const auto found = cells.find(key);
          if (found == cells.end()) return;
          any = true;
          if (!dropped.empty()) ++shortened[dropped];
          Line line{found->second, dialogue, turn + 1, 0, {}, {}};
          const auto print = common.json ? print_json : print_csv;
          for (; line.step < ledger.steps(); ++line.step) {
            if (!o->layers) {
              line.entry = ledger.total_of_step(line.step);
              print(line);
            }
            for (std::size_t layer = 0; o->layers && layer < ledger.layers(); ++layer) {
              line.layer = layer;
              line.entry = ledger.at(line.step, static_cast<int>(layer));
              print(line);
            }
          }
        });
    for (const auto& [dropped, count] : shortened) {
      fmt::print(stderr, "{}: {} ledgers were too large to be stored whole: without their {}\n",
                 o->db, count, dropped == "layers" ? "layers" : "layers and last steps");
    }
    if (!any) {
      fmt::print(stderr,
                 "{}: no {}cell of experiment \"{}\" ran alone (manifest: isolated) with keys "
                 "and values in host memory\n",
                 o->db, o->methods.empty() ? "" : "chosen ", printable(experiment));
    }
  });
}

}  // namespace turnbench
