// Scores existing answers: in files of predictions, and in stores.

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "cli/cli.h"
#include "cli/input_output.h"
#include "cli/shared_options.h"
#include "common/error.h"
#include "common/file.h"
#include "common/text.h"
#include "harness/scoring/rescore.h"
#include "harness/store/compressed_file.h"
#include "harness/store/sqlite.h"
#include "metrics/longbench_scoring.h"
#include "metrics/postprocess.h"
#include "metrics/score_file.h"

namespace turnbench {
namespace {

struct ScoreOptions {
  std::string file;
  std::vector<std::string> data, experiments;
  ScoreRequest request;
  std::string postprocess;
  bool replace = false;
};

void score_lines(ScoreOptions& o, bool json) {
  if (!o.experiments.empty() || !o.postprocess.empty() || o.replace) {
    throw input_error("{}: found a file of predictions with {}, expected a store", o.file,
                      !o.experiments.empty()   ? "--experiment"
                      : !o.postprocess.empty() ? "--postprocess"
                                               : "--replace");
  }
  if (!path_exists(o.file))
    throw input_error(
        "{}: found no readable file (No such file or directory), expected one of predictions, or a "
        "store",
        o.file);
  if (o.request.metric.empty() && o.request.dataset.empty()) {
    throw input_error("score: found neither --metric nor --dataset, expected at least one");
  }
  const std::string metric =
      o.request.metric.empty()
          ? std::string(find_longbench_scoring(o.request.dataset, "--dataset").metric)
          : o.request.metric;
  const auto segmenter =
      open_segmenter(find_metric(metric, "--metric"), {{}, parse_name_values(o.data, "--data")});
  o.request.segmenter = segmenter.get();
  const FileScores scores = score_file(o.file, o.request);
  fmt::print("{}", json ? to_json(scores).dump() + "\n" : to_text(scores));
}

OrderedJson to_json(const std::string& experiment, const CellScores& s) {
  return {{"experiment", experiment},
          {"model", s.cell.model},
          {"dataset", s.cell.dataset},
          {"position", s.cell.position},
          {"method", s.cell.method},
          {"history", s.cell.history},
          {"answers", s.cell.answers},
          {"metric", s.metric},
          {"postprocess", s.postprocess},
          {"mean", s.turns == 0 ? OrderedJson(nullptr)
                                : OrderedJson(100 * s.sum / static_cast<double>(s.turns))},
          {"n", s.dialogues},
          {"turns", s.turns},
          {"added", s.added},
          {"equal", s.equal},
          {"deleted", s.deleted},
          {"different", s.different.size()},
          {"refused", s.refused.size()}};
}

/// Scores a store's answers; exit code 1 if an answer cannot be scored, or if a stored score
/// differs and is kept.
void score_store(const ScoreOptions& o, const CommonOptions& common, int& exit_code) {
  if (!o.request.dataset.empty()) {
    throw input_error("--dataset: found it with a store, expected --experiment");
  }
  const RescoreRequest request{
      o.request.metric, o.postprocess, o.replace, {{}, parse_name_values(o.data, "--data")}};
  if (!request.metric.empty()) find_metric(request.metric, "--metric");
  if (!request.postprocess.empty()) find_postprocess(request.postprocess, "--postprocess");
  Store store = Store::open_to_write(o.file);
  OrderedJson cells = OrderedJson::array();
  std::vector<std::string> refused, different;
  for (const std::string& name : select_experiments(store, o.experiments)) {
    for (const CellScores& s : rescore(store, name, request)) {
      cells.push_back(to_json(name, s));
      refused.insert(refused.end(), s.refused.begin(), s.refused.end());
      different.insert(different.end(), s.different.begin(), s.different.end());
    }
  }
  if (cells.empty() && !common.quiet)
    fmt::print(stderr, "{}: has no answers to score\n", printable(o.file));
  if (common.json) {
    fmt::print("{}\n", dump(cells));
  } else {
    for (const OrderedJson& c : cells) {
      const std::string mean =
          c["mean"].is_null() ? "-" : fmt::format("{:.2f}", c["mean"].get<double>());
      const auto deleted = c["deleted"].get<std::size_t>();
      std::vector<std::string> names;
      for (const char* name : {"experiment", "model", "dataset", "position", "method", "history",
                               "answers", "metric"}) {
        names.push_back(c[name].get<std::string>());
      }
      fmt::print("{}\t{}\tn={}\tturns={}\t{} new, {} as stored{}\n", join(names, "\t"), mean,
                 c["n"].get<std::size_t>(), c["turns"].get<std::size_t>(),
                 c["added"].get<std::size_t>(), c["equal"].get<std::size_t>(),
                 deleted == 0 ? "" : fmt::format(", {} deleted: no reference", deleted));
    }
  }
  print_problems("not scored", refused);
  print_problems(o.replace ? "replaced" : "differs", different);
  if (!refused.empty() || (!different.empty() && !o.replace)) exit_code = 1;
}

}  // namespace

void add_score_command(CLI::App& app, const CommonOptions& common, int& exit_code) {
  auto o = std::make_shared<ScoreOptions>();
  CLI::App* command =
      app.add_subcommand("score", "Score a file of predictions, or the answers of a store");
  command->footer(
      "Examples:\n  turnbench score --metric qa_f1 predictions.jsonl\n"
      "  turnbench score results.db                       # each cell's own metric again\n"
      "  turnbench score results.db --metric exact_match  # then: report --metric exact_match");
  command
      ->add_option("file", o->file,
                   "jsonl of {\"prediction\", \"references\", \"classes\"}, or a store")
      ->required();
  command->add_option("--metric", o->request.metric,
                      "metric; default: the dataset's, or each cell's own");
  command->add_option("--postprocess", o->postprocess,
                      "for a store: post-processing of the answers; default: each cell's own");
  command->add_option("--dataset", o->request.dataset,
                      "for a file: LongBench dataset, whose post-processing applies");
  command
      ->add_option("--experiment", o->experiments,
                   "for a store: only these experiments; default: all")
      ->allow_extra_args(false);
  command->add_flag("--replace", o->replace, "replace stored scores that differ now");
  command->add_option("--data", o->data, "jieba=DIR: dictionary for metrics of Chinese words")
      ->allow_extra_args(false);
  command->callback([o, &common, &exit_code] {
    if (is_sqlite(o->file) || is_compressed(o->file)) {
      score_store(*o, common, exit_code);
    } else {
      score_lines(*o, common.json);
    }
  });
}

}  // namespace turnbench
