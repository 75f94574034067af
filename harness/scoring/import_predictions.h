#pragma once

#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "harness/experiment/experiment.h"
#include "harness/store/store.h"

namespace turnbench {

/// The target of an import: a dataset, and the experiment whose tables show the predictions.
struct ImportTarget {
  /// The experiment, the dataset and its dialogues, without cells and environment.
  StoredExperiment experiment;
  /// The settings that all cells of the import share.  The model is set if the manifest has only
  /// one; the position is the questions' default position.
  Cell cell;
  std::vector<Dialogue> dialogues;
  /// The positions at which the experiment has these dialogues; empty if that is unknown.
  std::set<std::string> positions;
  bool in_file_order = true;  ///< `dialogues` are in the order of the dataset's files
};

/// A dataset of a manifest.  `label` may be empty if there is only one.
ImportTarget import_target(const Manifest& manifest, const std::string& label,
                           const Locations& locations);
/// A dataset of a stored experiment, read from the store alone.
ImportTarget import_target(const Store& store, const std::string& experiment,
                           const std::string& label);
/// A dataset of the catalog, in a new experiment imported-NAME.
ImportTarget import_target(const std::string& dataset, const Locations& locations);

struct ImportRequest {
  std::filesystem::path file;
  std::string label;                   ///< the method is named imported:LABEL
  std::string model;                   ///< the model that produced the answers; empty: the target's
  Position position = Position::kEnd;  ///< for lines without a position; see the target's cell
};

/// Predictions as cells, records and scores, ready to be stored.
struct ImportedPredictions {
  StoredExperiment experiment;
  std::vector<Record> records;
  std::vector<ScoreValue> scores;
  /// A message with the numbers of found and expected predictions and the first missing turn; empty
  /// if the file has a prediction for every turn at each of its positions.
  std::string missing;
};

/// Reads and scores predictions of other programs.  A line is
/// - {"dialogue", "turn", "answer"}: a dialogue's id as `turnbench dialogues` prints it, with or
///   without its position, a turn from 1 (optional for dialogues of one turn), and the answer; or
/// - {"pred", "answers"}, as LongBench's pred.py writes it: one line for each dialogue of one turn,
///   in the order of the dataset's file, or in any order if the answers identify the dialogues.
/// Other fields are ignored.
/// @throws Error (input), with file, line and field, for dialogues and turns that are not in the
/// dataset, repeated turns, a position that the dialogue cannot have or the experiment lacks,
/// answers that the metric cannot score, and lines without ids of which some are missing, if
/// answers do not identify the dialogues.
ImportedPredictions read_predictions(const ImportRequest& request, const ImportTarget& target,
                                     const Segmenter* segmenter);

/// Stores predictions.  Storing the same file again adds nothing.
/// @throws Error (input) for another file under the same label.
void store_predictions(Store& store, const ImportedPredictions& imported);

}  // namespace turnbench
