#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "harness/experiment/experiment.h"
#include "harness/store/store.h"

namespace turnbench {

/// What predictions belong to: a dataset, and the experiment whose tables show them.
struct ImportTarget {
  /// The experiment, the dataset and its dialogues; cells and environment are left to the import.
  StoredExperiment experiment;
  /// What the predictions' cells have in common; its model is the manifest's, if that has only one.
  Cell cell;
  std::vector<Dialogue> dialogues;
  bool in_file_order = true;  ///< of the dataset's own files
};

/// A dataset of a manifest; `label` may be empty where it has only one.
ImportTarget import_target(const Manifest& manifest, const std::string& label,
                           const Locations& locations);
/// A dataset of an experiment that a store holds, from the store alone.
ImportTarget import_target(const Store& store, const std::string& experiment,
                           const std::string& label);
/// A dataset by its name, in an experiment of its own: imported-NAME.
ImportTarget import_target(const std::string& dataset, const Locations& locations);

struct ImportRequest {
  std::filesystem::path file;
  std::string label;                   ///< the method is imported:LABEL
  std::string model;                   ///< which the predictions are of; empty: the target's
  Position position = Position::kEnd;  ///< of lines that do not say
};

/// Cells with their records and scores, ready to be stored.
struct Imported {
  StoredExperiment experiment;
  std::vector<Record> records;
  std::vector<ScoreValue> scores;
  /// How many predictions were found and expected, and the first turn without one; empty if there
  /// is one for every turn at every position that the file has.
  std::string missing;
};

/// Reads predictions that were made elsewhere, and scores them.  A line is
/// - {"dialogue", "turn", "answer"}: a dialogue's id as `dialogues` prints it, with or without its
///   position, a turn from 1 (1 if nothing is said), and what was answered; or
/// - {"pred", "answers"}, as LongBench's pred.py writes it: one line a dialogue of one turn, in the
///   order of the dataset's file, or in any order if the answers tell the dialogues apart.
/// Other fields are ignored.  Refuses, with file, line and field, everything that has no place in
/// the dataset, a turn that is there twice, a position that its dialogue cannot have, and answers
/// that the metric cannot score.
Imported read_predictions(const ImportRequest& request, const ImportTarget& target,
                          const Segmenter* segmenter);

/// Stores them.  The same file again adds nothing; another one under the same label is refused.
void store_imported(Store& store, const Imported& imported);

}  // namespace turnbench
