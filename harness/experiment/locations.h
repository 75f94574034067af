#pragma once

#include <map>
#include <string>
#include <vector>

#include "harness/experiment/manifest.h"

namespace turnbench {

/// The collection of Chinese words that some metrics need.
inline constexpr const char* kJieba = "jieba";

/// Finds models and data by name: on the command line, else in the manifest, else in the
/// directories of the environment ($TURNBENCH_MODELS, or the models/ of the working directory and
/// of the project; $TURNBENCH_DATA).
struct Locations {
  std::map<std::string, std::string> models;  ///< name -> directory (--model NAME=DIR)
  std::map<std::string, std::string> data;    ///< collection -> file or directory (--data NAME=DIR)

  /// The path of a manifest's model, in the forms of `ModelEntry::path`.
  /// @throws Error (input) if it is not found.
  std::string model_path(const ModelEntry& entry) const;
  /// The path of a manifest's dataset; empty if it is not found or needs no files.
  std::string dataset_path(const DatasetEntry& entry, const Manifest& manifest) const;
  /// The path of a collection that manifests do not name (jieba); empty if it is not found.
  std::string collection_path(const std::string& name) const;
};

/// The names that --data accepts for a dataset's files: its label, its task, its name and its
/// collection, in this order of precedence; none if it takes no files.
std::vector<std::string> data_names(const DatasetEntry& entry, const std::string& where);

/// The names that --data accepts for a manifest: those of its datasets, and jieba if Chinese
/// answers may be scored by words.
std::vector<std::string> data_names(const Manifest& manifest);

/// The path of a manifest of the command line: as given, or, if it does not exist, the same path
/// below the project's directory (experiments/quickstart.json in any working directory).
std::string locate_manifest(const std::string& path);

/// Resolves a model of the command line for Checkpoint::open and Tokenizer::open: `model`, or its
/// path if it is a name in the directory of models.
/// @throws Error (input) if there is no such model, with the nearest name.
std::string locate_model(const std::string& model);

/// Paths in the directories of models ($TURNBENCH_MODELS, or the models/ of the working directory
/// and of the project) and in the directory of data ($TURNBENCH_DATA).  Sorted by name, without the
/// embedded `tiny`; empty if the directory does not exist.
/// @throws Error (input) if a variable does not name a directory.
std::vector<std::string> list_models();
std::vector<std::string> list_data();

}  // namespace turnbench
