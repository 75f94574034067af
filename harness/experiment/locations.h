#pragma once

#include <map>
#include <string>
#include <vector>

#include "harness/experiment/manifest.h"

namespace turnbench {

/// Where models and data lie: as the command line says, else the manifest, else the environment
/// ($TURNBENCH_MODELS, $TURNBENCH_DATA).
struct Locations {
  std::map<std::string, std::string> models;  ///< name -> directory (--model NAME=DIR)
  std::map<std::string, std::string> data;    ///< collection -> file or directory (--data NAME=DIR)

  /// Where a model of a manifest lies, as ModelEntry's path; refuses a name that leads nowhere.
  std::string of_model(const ModelEntry& entry) const;
  /// Where a dataset of a manifest lies; empty if nothing says so, or if it is read from no files.
  std::string of_dataset(const DatasetEntry& entry, const Manifest& manifest) const;
  /// Where files lie that no manifest names (jieba); empty if nothing says so.
  std::string of_files(const std::string& name) const;
};

/// What lies below a directory that an environment variable names, in the order of the names; empty
/// if it names none.
std::vector<std::string> found_below(const char* variable);

}  // namespace turnbench
