#include "harness/experiment/locations.h"

#include <cstdlib>
#include <map>

#include "common/error.h"
#include "common/file.h"
#include "common/json.h"
#include "common/text.h"
#include "datasets/catalog.h"
#include "metrics/metric.h"

namespace turnbench {
namespace {

namespace fs = std::filesystem;

/// The directory in an environment variable, or "".
fs::path environment_directory(const char* variable) {
  const char* root = std::getenv(variable);
  return root == nullptr ? "" : root;
}

std::vector<fs::path> models_directories() {
  const fs::path given = environment_directory("TURNBENCH_MODELS");
  return given.empty() ? project_directories("models") : std::vector{given};
}

/// `name` in `directory`, or "" if either does not exist.
std::string find_below(const fs::path& directory, const std::string& name) {
  if (directory.empty()) return "";
  const fs::path path = directory / name;
  return path_exists(path) ? path.string() : "";
}

std::vector<std::string> list(const fs::path& directory, const char* variable) {
  std::vector<std::string> out;
  if (directory.empty()) return out;
  if (!directory_exists(directory)) {
    throw input_error("${}: found \"{}\", expected a directory", variable,
                      printable(directory.string()));
  }
  for (const fs::path& entry : list_directory(directory)) out.push_back(entry.string());
  return out;
}

/// The argument of Checkpoint::open for a model that is embedded, random, a path, or a name in the
/// directories of models; "" for others.
std::string find_model(const std::string& model) {
  if (model == "tiny" || model.starts_with("random:") || path_exists(model)) return model;
  for (const fs::path& directory : models_directories()) {
    std::string found = find_below(directory, model);
    if (!found.empty()) return found;
  }
  return "";
}

/// `how`: the ways to give a directory.
Error unknown_model(const std::string& model, const std::string& how) {
  std::vector<std::string> names = {"tiny"};
  for (const fs::path path : list_models()) names.push_back(path.filename().string());
  return input_error(
      "model {}: found no directory and no model of this name, expected {}, or a directory{}",
      printable(model), nearest_or_all(model, {names.begin(), names.end()}), how);
}

}  // namespace

std::string Locations::model_path(const ModelEntry& entry) const {
  const auto given = models.find(entry.name);
  if (given != models.end()) return given->second;
  if (!entry.path.empty()) return entry.path;
  std::string found = find_model(entry.name);
  if (!found.empty()) return found;
  throw unknown_model(entry.name,
                      fmt::format(" (--model {0}=DIR, \"path\" in the manifest, or {0} below "
                                  "$TURNBENCH_MODELS)",
                                  printable(entry.name)));
}

std::string Locations::dataset_path(const DatasetEntry& entry, const Manifest& manifest) const {
  const std::string where = manifest.path.string() + ": /datasets";
  const Dataset& dataset = find_dataset(entry.name, where);
  if (!dataset.takes_source) return entry.source;
  for (const std::string& name : data_names(entry, where)) {
    const auto given = data.find(name);
    if (given != data.end()) return given->second;
  }
  if (!entry.source.empty()) {
    const fs::path path = entry.source;
    return path.is_absolute() ? path.string() : (manifest.path.parent_path() / path).string();
  }
  // Generated datasets use files only if the manifest or the command line names them.
  if (!dataset.needs_source) return "";
  return find_below(environment_directory("TURNBENCH_DATA"), dataset.collection);
}

std::string Locations::collection_path(const std::string& name) const {
  const auto given = data.find(name);
  return given != data.end() ? given->second
                             : find_below(environment_directory("TURNBENCH_DATA"), name);
}

std::vector<std::string> data_names(const DatasetEntry& entry, const std::string& where) {
  const Dataset& dataset = find_dataset(entry.name, where);
  if (!dataset.takes_source) return {};
  std::vector<std::string> out = {entry.label};
  if (!entry.task.empty()) out.push_back(entry.task);
  out.push_back(entry.name);
  if (!dataset.collection.empty()) out.push_back(dataset.collection);
  return out;
}

std::vector<std::string> data_names(const Manifest& manifest) {
  const std::string where = manifest.path.string() + ": /datasets";
  std::vector<std::string> out;
  bool chinese = false;
  for (const DatasetEntry& entry : manifest.datasets) {
    for (std::string& name : data_names(entry, where)) out.push_back(std::move(name));
    const Dataset& dataset = find_dataset(entry.name, where);
    // A custom file may name any metric.
    chinese |= entry.metric.empty() && dataset.has_fields;
    chinese |=
        find_metric(entry.metric.empty() ? dataset.metric : entry.metric, where).needs_segmenter;
  }
  if (chinese) out.emplace_back(kJieba);
  return out;
}

std::string locate_manifest(const std::string& path) {
  if (path_exists(path) || !path.starts_with("experiments/")) return path;
  for (const fs::path& directory : project_directories("experiments")) {
    const fs::path below = directory.parent_path() / path;
    if (path_exists(below)) return below.string();
  }
  return path;
}

std::string locate_model(const std::string& model) {
  std::string found = find_model(model);
  if (found.empty()) throw unknown_model(model, "");
  return found;
}

std::vector<std::string> list_models() {
  std::map<std::string, std::string> by_name;  // the first one of each name, as in locate_model
  for (const fs::path& directory : models_directories()) {
    for (const fs::path path : list(directory, "TURNBENCH_MODELS"))
      by_name.try_emplace(path.filename().string(), path.string());
  }
  by_name.erase("tiny");
  std::vector<std::string> out;
  for (const auto& [name, path] : by_name) out.push_back(path);
  return out;
}

std::vector<std::string> list_data() {
  return list(environment_directory("TURNBENCH_DATA"), "TURNBENCH_DATA");
}

}  // namespace turnbench
