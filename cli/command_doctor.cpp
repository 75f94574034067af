#include <fmt/format.h>
#include <sqlite3.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "cli/cli.h"
#include "cli/input_output.h"
#include "common/error.h"
#include "common/file.h"
#include "common/text.h"
#include "common/thread_pool.h"
#include "datasets/catalog.h"
#include "harness/experiment/locations.h"
#include "harness/store/integrity.h"
#include "harness/store/provenance.h"
#include "inference/cpu/bf16_unit.h"

namespace turnbench {
namespace {

namespace fs = std::filesystem;

std::string gibibytes(double bytes) {
  return fmt::format("{:.1f} GiB", bytes / (1 << 30));
}

/// The missing files of a model's directory.
std::vector<std::string> missing_in_model(const fs::path& directory) {
  const auto has = [&](const char* file) { return path_exists(directory / file); };
  std::vector<std::string> out;
  if (!directory_exists(directory)) return {"the directory"};
  if (!has("config.json")) out.push_back("config.json");
  const std::vector<fs::path> files = list_directory(directory);
  const bool weights = std::any_of(files.begin(), files.end(), [](const fs::path& file) {
    return file.extension() == ".safetensors";
  });
  if (!weights) out.push_back("weights (*.safetensors)");
  const bool tokenizer =
      has("tokenizer.json") || has("tokenizer.model") || (has("vocab.json") && has("merges.txt"));
  if (!tokenizer) out.push_back("tokenizer");
  return out;
}

/// True for names that --data accepts for directories.
bool is_collection(const std::string& name) {
  const std::vector<Dataset>& all = all_datasets();
  return name == kJieba || std::any_of(all.begin(), all.end(), [&](const Dataset& dataset) {
           return dataset.collection == name;
         });
}

/// A directory of records: the number of its collection's datasets that exist, and the missing
/// ones.
std::string describe_collection(const std::string& name, const fs::path& directory) {
  std::size_t known = 0;
  std::vector<std::string> missing;
  for (const Dataset& dataset : all_datasets()) {
    // Multi-turn variants use the same files.
    if (dataset.collection != name || !dataset.needs_source || dataset.name.starts_with("mt-")) {
      continue;
    }
    ++known;
    if (!has_file(dataset, directory)) missing.push_back(dataset.name);
  }
  if (known == 0) return directory.string();
  std::string out =
      fmt::format("{}: {} of {} datasets", directory.string(), known - missing.size(), known);
  if (!missing.empty()) out += ", missing " + join(missing, ", ");
  return out;
}

using Facts = std::vector<std::pair<std::string, std::string>>;  // name and value

/// The paths that `list` returns; empty, with the reason, if a variable does not name a directory.
std::vector<std::string> paths(std::vector<std::string> (*list)(), const char* name, Facts& facts) {
  try {
    return list();
  } catch (const Error& error) {
    facts.emplace_back(name, error.what());
    return {};
  }
}

void print_doctor(bool json) {
  Facts facts;
  facts.emplace_back("program", build_description());
  facts.emplace_back("backend", make_backend({}, 0)->description());
  for (const cpu::Bf16Unit unit : cpu::deviating_bf16_units())
    facts.emplace_back(cpu::name_of(unit),
                       "not used: its sums differ from those of the other instruction sets");
  facts.emplace_back("processors", std::to_string(available_processors()));
  facts.emplace_back("memory", gibibytes(static_cast<double>(sysconf(_SC_PHYS_PAGES)) *
                                         static_cast<double>(sysconf(_SC_PAGESIZE))));
  facts.emplace_back("gpu", cuda_description());
  facts.emplace_back("sqlite", sqlite3_libversion());
  struct statvfs disk {};
  if (statvfs(".", &disk) == 0) {
    facts.emplace_back(
        "disk", gibibytes(static_cast<double>(disk.f_bavail) * static_cast<double>(disk.f_frsize)) +
                    " free here");
  }
  facts.emplace_back("model tiny", "embedded");
  for (const std::string& path : paths(list_models, "models", facts)) {
    const std::string missing = join(missing_in_model(path), ", ");
    facts.emplace_back("model " + fs::path(path).filename().string(),
                       missing.empty() ? path : path + ": missing " + missing);
  }
  if (std::getenv("TURNBENCH_MODELS") == nullptr)
    facts.emplace_back("models",
                       "$TURNBENCH_MODELS is not set: models are found in the project's models/, "
                       "or given by --model");
  for (const std::string& path : paths(list_data, "data", facts)) {
    const std::string name = fs::path(path).filename().string();
    if (!is_collection(name)) continue;  // other directories
    facts.emplace_back("data " + name, describe_collection(name, path));
  }
  if (std::getenv("TURNBENCH_DATA") == nullptr)
    facts.emplace_back("data",
                       "$TURNBENCH_DATA is not set: dialogues are generated, or their directory is "
                       "given by --data");
  if (json) {
    OrderedJson out;
    for (const auto& [name, value] : facts) out[name] = value;
    fmt::print("{}\n", out.dump());
    return;
  }
  for (const auto& [name, value] : facts) fmt::print("{:<14} {}\n", name, value);
}

/// Prints what is wrong with a store.  Returns whether anything is.
bool print_store_check(const std::string& db, bool json) {
  const StoreCheck check = check_store(db);
  if (json) {
    OrderedJson out = {{"store", db},
                       {"schema_version", check.schema_version},
                       {"records", check.records},
                       {"findings", OrderedJson::array()}};
    for (const StoreCheck::Finding& f : check.findings) {
      out["findings"].push_back(
          {{"kind", f.kind}, {"what", f.what}, {"count", f.count}, {"example", f.example}});
    }
    fmt::print("{}\n", dump(out));
  } else {
    for (const StoreCheck::Finding& f : check.findings)
      fmt::print("{}: {} {}, for example: {}\n", printable(db), f.count, f.what, f.example);
    if (check.findings.empty())
      fmt::print("{}: no problems in {} records\n", printable(db), check.records);
  }
  return !check.findings.empty();
}

}  // namespace

void add_doctor_command(CLI::App& app, const CommonOptions& common, int& exit_code) {
  auto db = std::make_shared<std::string>();
  CLI::App* command = app.add_subcommand(
      "doctor",
      "Report the machine's processors and libraries, and the models and data that are found; or "
      "check a store");
  command->footer(
      "Examples:\n"
      "  turnbench doctor\n"
      "  turnbench doctor results.db    # the integrity of this store alone\n"
      "Exit codes: 0 no problem, 1 problems were found in the store, 2 it cannot be opened.");
  command->add_option("db", *db, "store to check; it is not changed");
  command->callback([db, command, &common, &exit_code] {
    if (command->count("db") == 0) {
      print_doctor(common.json);
    } else if (print_store_check(*db, common.json)) {
      exit_code = 1;
    }
  });
}

}  // namespace turnbench
