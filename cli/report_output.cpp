#include "cli/report_output.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

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

std::string chosen_format(const CommonOptions& common, const CLI::Option& format,
                          const std::string& value, const std::string& file,
                          std::span<const char* const> formats) {
  check_json(common, format, value);
  const std::string asked = format.count() > 0 ? value : common.json ? "json" : "";
  const std::vector<std::string> all(formats.begin(), formats.end());
  const auto is_known = [&](const std::string& name) {
    return std::find(all.begin(), all.end(), name) != all.end();
  };
  const std::string ending = std::filesystem::path(file).extension().string();
  const std::string of_file = ending.empty() ? "" : ending.substr(1);
  if (asked.empty()) {
    if (ending.empty()) return all.front();
    if (is_known(of_file)) return of_file;
    throw input_error("--output: found the ending \"{}\", expected one of: .{}; or --format",
                      printable(ending), join(all, ", ."));
  }
  if (is_known(asked) && is_known(of_file) && of_file != asked) {
    throw input_error("--output: found a name that ends with .{} and the format {}, expected .{}",
                      of_file, asked, asked);
  }
  return asked;
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
