#pragma once

#include <map>
#include <string>
#include <vector>

#include "harness/experiment/manifest.h"

namespace turnbench {

/// The collection of Chinese words that some metrics need.
inline constexpr const char* kJieba = "jieba";

/// Finds models and data by their names: on the command line, else in the manifest, else below the
/// directories of the environment ($TURNBENCH_MODELS, or the models/ of the working directory and
/// of the project; $TURNBENCH_DATA).
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

/// The names by which --data may say where a dataset's files are: its label, its name and its
/// collection; none if it takes no files.  Nearest first.
std::vector<std::string> data_names(const DatasetEntry& entry, const std::string& where);

/// The names by which --data may locate what a manifest reads: its datasets' files, and jieba where
/// an answer may be scored by Chinese words.
std::vector<std::string> data_names(const Manifest& manifest);

/// What Checkpoint::open and Tokenizer::open take for a model of the command line: `model`, or its
/// path where it is a name in the directory of models.
/// @throws Error (input) if there is no such model, with the nearest name.
std::string locate_model(const std::string& model);

/// Paths in the directories of models ($TURNBENCH_MODELS; else the models/ of the working directory
/// and of the project), and in that of data, which $TURNBENCH_DATA names.  Sorted by name, without
/// `tiny`, which is embedded; empty if there is no such directory.
/// @throws Error (input) if a variable names something else.
std::vector<std::string> list_models();
std::vector<std::string> list_data();

}  // namespace turnbench
