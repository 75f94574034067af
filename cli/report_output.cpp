#include "cli/report_output.h"

#include <fmt/format.h>

#include "common/error.h"
#include "common/text.h"
#include "reports/report_file.h"

namespace turnbench {

void add_score_choice(CLI::App& command, ScoreChoice& choice) {
  command.add_option("--metric", choice.metric,
                     "scores of another metric, stored by `run`, `score` or `judge`; default: the "
                     "datasets' own metrics");
  command.add_option("--postprocess", choice.postprocess,
                     "with --metric: post-processing or judge of the scores");
}

void check_score_choice(const ScoreChoice& choice) {
  if (!choice.postprocess.empty() && choice.metric.empty())
    throw input_error("--postprocess: found no --metric, expected it too");
}

void check_json(const CommonOptions& common, const CLI::Option& format, const std::string& value,
                const std::string& of_json) {
  if (common.json && format.count() > 0 && value != of_json) {
    throw input_error("--json: found --format {} too, expected only one of them", printable(value));
  }
}

std::string asked_or_latest(const Store& store, const std::string& asked) {
  const std::vector<std::string> all = store.experiments();
  if (all.empty())
    throw input_error("{}: found no experiment, expected at least one", store.path());
  return asked.empty() ? all.back() : asked;
}

void print_or_write(const std::string& text, const std::string& file, bool force) {
  if (file.empty()) {
    fmt::print("{}", text);
  } else {
    write_report(file, text, force);
  }
}

}  // namespace turnbench
