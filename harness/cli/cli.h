#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "harness/cli/command_line.h"
#include "harness/experiment/locations.h"
#include "inference/engine.h"
#include "runners/runner.h"

namespace turnbench {

/// Runs the program.  Returns the exit code: 0 success, 1 failure at run time, 2 wrong usage or
/// invalid input.
int run_cli(int argc, char** argv);

/// Options of all commands.
struct CommonOptions {
  bool json = false, quiet = false;
};

// Each function adds a command to the program.  The callback of the command throws Error, or sets
// `exit_code`.  `common` and `exit_code` must outlive `app`.
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

/// --model, --dtype, --kv-dtype, --threads, --device, --memory-limit: how one model is loaded.
struct ModelOptions {
  std::string model, dtype = "auto", kv_dtype = "f32", device = "auto";
  int threads = 0;
  std::size_t memory_limit_mib = 0;
  void add_to(CLI::App& command);
  DType kv_type() const;
};

struct LoadedModel {
  Checkpoint checkpoint;
  std::vector<std::unique_ptr<Backend>> backends;  ///< one for each stage of the model
  std::unique_ptr<Model> model;
  std::unique_ptr<Engine> engine;
};
LoadedModel load_model(const ModelOptions& options);

/// Parses the values NAME=DIR of an option.
/// @throws Error (input) for values of another form and repeated names.
std::map<std::string, std::string> parse_name_values(const std::vector<std::string>& given,
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

/// --limit, --smoke and SweepOptions: how a manifest file is run.
struct ManifestOptions {
  std::size_t limit = 0;  ///< dialogues of each dataset; 0: all
  bool smoke = false;
  SweepOptions sweep;
  void add_to(CLI::App& command);
  /// Loads a manifest; with --smoke, returns its smoke run.
  Manifest load(const std::string& path) const;
};

/// Runs what the store lacks of a manifest.  Returns its tables, as JSON if `common` says so.  Sets
/// `exit_code` to 1 if units failed.
std::string run_manifest(const Manifest& manifest, const std::string& db,
                         const SweepOptions& options, std::size_t limit,
                         const CommonOptions& common, int& exit_code);

/// Serializes on one line; bytes that are not UTF-8 become U+FFFD.
std::string dump(const OrderedJson& json);

/// Prints JSON documents as one document: an array, unless there is exactly one.
void print_documents(std::vector<std::string> documents);

/// Prints problems to stderr, one a line after `title`: the first 20, and the number of the others,
/// followed by `more`.
void print_problems(std::string_view title, const std::vector<std::string>& lines,
                    std::string_view more = "more");

/// The named experiments, or all if none is named.
/// @throws Error (input) for a name that the store does not have.
std::vector<std::string> select_experiments(const Store& store,
                                            const std::vector<std::string>& named);

/// Reads a file, or standard input for "" and "-".
std::string read_input(const std::string& file);
/// The same.
/// @throws Error (input) if it is not UTF-8.
std::string read_utf8_input(const std::string& file);
/// The name of such an input in messages.
std::string input_name(const std::string& file);

}  // namespace turnbench
