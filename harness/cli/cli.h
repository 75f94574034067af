#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "harness/cli/command_line.h"
#include "harness/experiment/locations.h"
#include "inference/engine.h"
#include "runners/runner.h"

namespace turnbench {

/// The program: parses, calls, prints.  Returns the exit code: 0 done, 1 a failure at run time, 2
/// bad usage or bad input.
int run_cli(int argc, char** argv);

/// What several commands take.
struct CommonOptions {
  bool json = false, quiet = false;
};

// Each command adds itself to the program; its callback throws Error, or sets `exit_code`.
void add_run_command(CLI::App& app, const CommonOptions& common, int& exit_code);
void add_plan_command(CLI::App& app, const CommonOptions& common);
void add_status_command(CLI::App& app, const CommonOptions& common, int& exit_code);
void add_report_command(CLI::App& app, const CommonOptions& common);
void add_answers_command(CLI::App& app, const CommonOptions& common);
void add_forget_command(CLI::App& app, const CommonOptions& common);
void add_list_command(CLI::App& app, const CommonOptions& common);
void add_describe_command(CLI::App& app, const CommonOptions& common);
void add_generate_command(CLI::App& app, const CommonOptions& common);
void add_logits_command(CLI::App& app);
void add_tokenize_command(CLI::App& app, const CommonOptions& common);
void add_score_command(CLI::App& app, const CommonOptions& common, int& exit_code);
void add_import_command(CLI::App& app, const CommonOptions& common);
void add_judge_command(CLI::App& app, const CommonOptions& common, int& exit_code);
void add_dialogues_command(CLI::App& app, const CommonOptions& common);
void add_bench_command(CLI::App& app, const CommonOptions& common);
void add_calibrate_command(CLI::App& app, const CommonOptions& common);
void add_doctor_command(CLI::App& app, const CommonOptions& common);

/// --model, --dtype, --kv-dtype, --threads, --device: one model, loaded.
struct ModelOptions {
  std::string model, dtype = "auto", kv_dtype = "f32", device = "auto";
  int threads = 0;
  std::size_t memory_limit_mib = 0;
  void add_to(CLI::App& command);
  DType kv_type() const;
};

struct LoadedModel {
  Checkpoint checkpoint;
  std::vector<std::unique_ptr<Backend>> backends;  ///< of the model's stages
  std::unique_ptr<Model> model;
  std::unique_ptr<Engine> engine;
};
LoadedModel load_model(const ModelOptions& options);

/// The values of an option of the form NAME=DIR, each name once.
std::map<std::string, std::string> names_and_values(const std::vector<std::string>& given,
                                                    const char* option);

/// --model NAME=DIR, --data NAME=DIR, --workers, --threads, --device, --memory-limit: how a sweep
/// runs.
struct SweepOptions {
  std::vector<std::string> models, data;
  std::string device = "auto";
  int workers = 0, threads = 0;
  std::size_t memory_limit_mib = 0;
  void add_to(CLI::App& command);
  Locations locations() const;
  RunOptions run_options() const;
};

/// --limit, --smoke, and how a sweep runs: what is made of a manifest file.
struct ManifestOptions {
  std::size_t limit = 0;  ///< dialogues of each dataset; 0: all
  bool smoke = false;
  SweepOptions sweep;
  void add_to(CLI::App& command);
  /// The manifest of a file, or its smoke run.
  Manifest load(const std::string& path) const;
};

/// Runs what the store lacks of a manifest and returns its table, as JSON if `common` says so; sets
/// exit code 1 if units failed.
std::string run_manifest(const Manifest& manifest, const std::string& db,
                         const SweepOptions& options, std::size_t limit,
                         const CommonOptions& common, int& exit_code);

/// One line of JSON; bytes that are no UTF-8 become U+FFFD.
std::string dump(const OrderedJson& json);

/// Prints JSON documents as one: as an array, unless there is exactly one.
void print_documents(std::vector<std::string> documents);

/// Lines of what went wrong on stderr, each behind a title: the first 20, and how many `more`.
void print_problems(std::string_view title, const std::vector<std::string>& lines,
                    std::string_view more = "more");

/// The experiments that were named, or all; refuses a name that the store does not have.
std::vector<std::string> wanted_experiments(const Store& store,
                                            const std::vector<std::string>& named);

/// A file, or standard input for "" and "-".
std::string read_input(const std::string& file);
/// The same, refusing what is not UTF-8.
std::string read_utf8_input(const std::string& file);
/// How messages name it.
std::string input_name(const std::string& file);

}  // namespace turnbench
