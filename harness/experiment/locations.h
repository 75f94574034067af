#pragma once

#include <map>
#include <string>
#include <vector>

#include "harness/experiment/manifest.h"

namespace turnbench {

/// Finds models and data by their names: on the command line, else in the manifest, else below the
/// directories of the environment ($TURNBENCH_MODELS, $TURNBENCH_DATA).
struct Locations {
  std::map<std::string, std::string> models;  ///< name -> directory (--model NAME=DIR)
  std::map<std::string, std::string> data;    ///< collection -> file or directory (--data NAME=DIR)

  /// The path of a model of a manifest, in the forms of `ModelEntry::path`.
  /// @throws Error (input) if it is not found.
  std::string model_path(const ModelEntry& entry) const;
  /// The path of a dataset of a manifest; empty if it is not found or needs no files.
  std::string dataset_path(const DatasetEntry& entry, const Manifest& manifest) const;
  /// The path of a collection that no manifest names (jieba); empty if it is not found.
  std::string collection_path(const std::string& name) const;
};

/// The paths in the directory that an environment variable names, sorted; empty if it names none.
std::vector<std::string> list_environment_directory(const char* variable);

}  // namespace turnbench
