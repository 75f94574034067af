#include "harness/experiment/locations.h"

#include <cstdlib>

#include "common/error.h"
#include "common/file.h"
#include "common/text.h"
#include "datasets/catalog.h"

namespace turnbench {
namespace {

namespace fs = std::filesystem;

/// NAME under the directory that an environment variable names, or "".
std::string under_environment(const char* variable, const std::string& name) {
  const char* root = std::getenv(variable);
  if (root == nullptr || *root == '\0') return "";
  const fs::path path = fs::path(root) / name;
  return path_exists(path) ? path.string() : "";
}

}  // namespace

std::string Locations::model_path(const ModelEntry& entry) const {
  const auto given = models.find(entry.name);
  if (given != models.end()) return given->second;
  if (!entry.path.empty()) return entry.path;
  if (entry.name == "tiny" || entry.name.starts_with("random:") || directory_exists(entry.name))
    return entry.name;
  const std::string found = under_environment("TURNBENCH_MODELS", entry.name);
  if (!found.empty()) return found;
  throw input_error(
      "model {}: found no directory for it, expected --model {}=DIR, a \"path\" in the manifest, "
      "or {} below $TURNBENCH_MODELS",
      printable(entry.name), printable(entry.name), printable(entry.name));
}

std::string Locations::dataset_path(const DatasetEntry& entry, const Manifest& manifest) const {
  const Dataset& dataset = find_dataset(entry.name, manifest.path.string() + ": /datasets");
  if (!dataset.takes_source) return entry.source;
  for (const std::string& name : {entry.label, entry.name, dataset.collection}) {
    const auto given = data.find(name);
    if (given != data.end()) return given->second;
  }
  if (!entry.source.empty()) {
    const fs::path path = entry.source;
    return path.is_absolute() ? path.string() : (manifest.path.parent_path() / path).string();
  }
  // What is made up without files takes them only if the manifest or the command line says so.
  if (!dataset.needs_source) return "";
  return under_environment("TURNBENCH_DATA", dataset.collection);
}

std::string Locations::collection_path(const std::string& name) const {
  const auto given = data.find(name);
  return given != data.end() ? given->second : under_environment("TURNBENCH_DATA", name);
}

std::vector<std::string> list_environment_directory(const char* variable) {
  std::vector<std::string> out;
  const char* root = std::getenv(variable);
  if (root == nullptr || *root == '\0') return out;
  if (!directory_exists(root))
    throw input_error("${}: found \"{}\", expected a directory", variable, printable(root));
  for (const fs::path& entry : list_directory(root)) out.push_back(entry.string());
  return out;
}

}  // namespace turnbench
