#pragma once

#include <CLI/CLI.hpp>
#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "harness/experiment/locations.h"
#include "harness/store/store.h"
#include "inference/engine/engine.h"
#include "runners/runner.h"
#include "text/tokenizer/chat_template.h"

namespace turnbench {

/// Help of --model for commands that read only a tokenizer.
constexpr const char* kTokenizerModelHelp =
    "Hugging Face directory, its name below $TURNBENCH_MODELS or models/, or tiny; needs no "
    "weights";

/// --json, --quiet: options of all commands.
struct CommonOptions {
  bool json = false, quiet = false;
  void add_to(CLI::App& command);
};

/// --model, --dtype, --kv-dtype, --math, --threads, --device, --memory-limit: loading of one model.
struct ModelOptions {
  std::string model, dtype = "auto", kv_dtype = "f32", math = "f32", device = "auto";
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

/// --template, --system: rendering of a conversation as a prompt.
struct ConversationOptions {
  std::string chat_template = "auto", system;
  std::string place = "--template";  ///< name of `chat_template`'s place in messages
  std::filesystem::path
      folder;  ///< directory against which a relative path of the template is resolved
  CLI::Option* add_template_to(CLI::App& command);
  CLI::Option* add_system_to(CLI::App& command);
  /// The template of --template: a known name, a file, or the model's own.
  ChatTemplate open(const Tokenizer& tokenizer, const std::string& model) const;
};

/// Parses "512,2048" as numbers of at least `min`.
/// @throws Error (input) naming the option.
std::vector<int> number_list(const std::string& text, const char* option, int min);

/// The tokenizer of --model, whose weights may be missing.
Tokenizer open_model_tokenizer(const std::string& model);

/// Parses values of the form NAME=DIR.
/// @throws Error (input) for values of another form and repeated names.
std::map<std::string, std::string> parse_name_values(const std::vector<std::string>& given,
                                                     const char* option);

/// --model NAME=DIR, --data NAME=DIR, --workers, --threads, --device, --memory-limit: settings of a
/// sweep's run.
struct SweepOptions {
  std::vector<std::string> models, data;
  std::string device = "auto";
  int workers = 0, threads = 0;
  std::size_t memory_limit_mib = 0;
  void add_to(CLI::App& command);
  Locations locations() const;
  /// @throws Error (input) if --model or --data has a name that is in none of the manifests.
  void check_names(std::span<const Manifest> manifests) const;
  RunOptions run_options() const;
};

/// Parses --shard I/N.
/// @throws Error (input) unless 1 <= I <= N.
Shard parse_shard(const std::string& text);

/// --limit, --shard, --smoke and SweepOptions: settings of a manifest's run.
struct ManifestOptions {
  std::size_t limit = 0;  ///< dialogues of each dataset; 0: all
  std::optional<std::string> shard_text;
  bool smoke = false;
  SweepOptions sweep;
  void add_to(CLI::App& command);
  /// Loads manifests; with --smoke, returns their smoke runs.
  /// @throws Error (input) as SweepOptions::check_names.
  std::vector<Manifest> load(const std::vector<std::string>& paths) const;
  /// The shard of --shard; nullopt for all units.
  std::optional<Shard> shard() const;
};

/// The named experiments, or all if none is named.
/// @throws Error (input) for a name that the store does not have.
std::vector<std::string> select_experiments(const Store& store,
                                            const std::vector<std::string>& named);

}  // namespace turnbench
