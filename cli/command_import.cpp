#include <fmt/format.h>

#include "cli/cli.h"
#include "cli/shared_options.h"
#include "common/error.h"
#include "common/text.h"
#include "harness/scoring/import_predictions.h"
#include "reports/render.h"

namespace turnbench {
namespace {

struct ImportOptions {
  std::string db, manifest, experiment, dataset, position;
  std::vector<std::string> data;
  ImportRequest request;
};

ImportTarget target_of(const ImportOptions& o, const Locations& locations) {
  if (!o.manifest.empty()) return import_target(load_manifest(o.manifest), o.dataset, locations);
  if (!o.experiment.empty()) return import_target(Store::open(o.db), o.experiment, o.dataset);
  if (o.dataset.empty()) {
    throw input_error(
        "--dataset: found none, expected one (see list datasets), or --manifest, or --experiment");
  }
  return import_target(o.dataset, locations);
}

void import_predictions(ImportOptions& o, const CommonOptions& common) {
  if (o.request.label.empty() || printable(o.request.label) != o.request.label) {
    throw input_error("--label: found \"{}\", expected a name", printable(o.request.label));
  }
  const Locations locations{{}, parse_name_values(o.data, "--data")};
  if (!o.position.empty()) o.request.position = parse_position(o.position, "--position");
  const ImportTarget target = target_of(o, locations);
  if (o.position.empty()) o.request.position = parse_position(target.cell.position, o.db);
  const auto segmenter = open_segmenter(find_metric(target.cell.metric, "--dataset"), locations);
  const ImportedPredictions imported = read_predictions(o.request, target, segmenter.get());
  Store store = Store::create(o.db);
  store_predictions(store, imported);
  if (!common.quiet) {
    fmt::print(stderr, "{}: {} predictions stored as imported:{}\n", o.request.file.string(),
               imported.records.size(), o.request.label);
    if (!imported.missing.empty())
      fmt::print(stderr, "{}: {}\n", o.request.file.string(), imported.missing);
  }
  const Results results(store, imported.experiment.name);
  fmt::print("{}", render_report(results, {common.json ? "json" : "md", false}));
}

}  // namespace

void add_import_command(CLI::App& app, const CommonOptions& common) {
  auto o = std::make_shared<ImportOptions>();
  CLI::App* command = app.add_subcommand(
      "import-predictions", "Score predictions of other programs, and print the table with both");
  command->footer(
      "Examples:\n"
      "  turnbench import-predictions pred/llama/hotpotqa.jsonl --db results.db --label paper \\\n"
      "      --model llama --dataset hotpotqa --data longbench=longbench/\n"
      "  turnbench import-predictions mine.jsonl --db results.db --label mine --manifest m.json\n"
      "  turnbench import-predictions mine.jsonl --db results.db --label mine --experiment first\n"
      "A line is {\"dialogue\", \"turn\", \"answer\"} (ids as `dialogues` prints them, turns from\n"
      "1), or {\"pred\", \"answers\"} as LongBench's pred.py writes it.");
  command->add_option("file", o->request.file, "predictions, jsonl")->required();
  command->add_option("--db", o->db, "store (SQLite), created if missing")->required();
  command
      ->add_option("--label", o->request.label,
                   "name of the predictions; in tables the method is imported:LABEL")
      ->required();
  CLI::Option* manifest =
      command->add_option("--manifest", o->manifest, "experiment file whose table shows them");
  command
      ->add_option("--experiment", o->experiment,
                   "experiment of the store whose table shows them; needs no data files")
      ->excludes(manifest);
  command->add_option("--dataset", o->dataset,
                      "dataset of the manifest or experiment, if it has several; or of the "
                      "catalog: then the experiment is imported-DATASET");
  command->add_option(
      "--model", o->request.model,
      "model that made the predictions; default: the manifest's, if it has only one");
  command->add_option(
      "--position", o->position,
      "position of the questions, if ids do not contain it: begin, middle, end; "
      "default: the only position of the experiment, otherwise end; for jsonl without "
      "positions in the manifest, the first position of the file");
  command->add_option("--data", o->data, "NAME=DIR: directory of a dataset or collection")
      ->allow_extra_args(false);
  command->callback([o, &common] { import_predictions(*o, common); });
}

}  // namespace turnbench
