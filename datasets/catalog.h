#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "datasets/build_options.h"
#include "datasets/dialogue.h"

namespace turnbench {

/// A named source of dialogues, and its build options.
struct Dataset {
  std::string name;
  std::string description;  ///< one line
  std::string task;         ///< kind: qa, summary, few-shot, synthetic, code, ...
  std::string metric;
  std::string postprocess = "none";     ///< applied to an answer before it is scored
  std::string collection = "";          ///< the collection to which its files belong, or empty
  std::vector<std::string> files = {};  ///< possible paths of its file in the collection
  int turns = 1;                        ///< the default; 0: as many as each record has
  bool needs_source = false;            ///< it is read from files
  bool takes_source = false;            ///< it can be read from files; otherwise it is generated
  bool has_length = false;              ///< the length of its dialogues can be chosen
  /// If `has_length`: minimum number of words and punctuation marks of a turn.
  int min_turn_length = 0;
  bool has_depth = false;             ///< the depth of the needle can be set
  bool has_fields = false;            ///< the fields of its files can have other names
  bool has_official_prompts = false;  ///< its files may come with official prompts
  bool has_question_ids = false;      ///< questions can be left out by their ids
  std::function<std::vector<Dialogue>(const std::filesystem::path& source, const BuildOptions&)>
      load = nullptr;
};

/// All datasets: generators for the embedded model (tiny-*); generated needles and word lists
/// (needle, ...); LongBench's tasks, those of LongBench-E (TASK_e), and the multi-turn variants of
/// both (mt-NAME); native files of other collections; `jsonl`, for custom files.
const std::vector<Dataset>& all_datasets();

/// True if `source` is a file, or a directory or zip archive that contains the dataset's file.
bool has_file(const Dataset& dataset, const std::filesystem::path& source);

/// @throws Error (input) for an unknown name, with the nearest known one; `where` names the place.
const Dataset& find_dataset(std::string_view name, const std::string& where);

/// The dialogues of a dataset, with the questions at the end.  `source` is a file or a directory,
/// or empty for datasets that need none.
/// @throws Error (input) for options that the dataset does not have (a source, a length, a depth,
/// names of fields, official prompts, questions to leave out, several turns).
std::vector<Dialogue> load_dialogues(std::string_view name, const std::filesystem::path& source,
                                     const BuildOptions& options);

}  // namespace turnbench
