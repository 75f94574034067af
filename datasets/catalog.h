#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "datasets/build_options.h"
#include "datasets/dialogue.h"

namespace turnbench {

/// A named source of dialogues.
struct Dataset {
  std::string name;
  std::string description;  ///< one line
  std::string task;         ///< kind: qa, summary, few-shot, synthetic, code, ...
  std::string metric;
  std::string postprocess = "none";     ///< of an answer, before it is scored
  std::string collection = "";          ///< whose files it is read from (longbench), or empty
  std::vector<std::string> files = {};  ///< where the collection's directory may have its file
  int turns = 1;                        ///< by default; 0: as many as each of its records has
  bool needs_source = false;            ///< it is read from files
  bool takes_source = false;            ///< it may be read from files, otherwise it is made up
  bool has_length = false;              ///< it is generated at any length ...
  int min_turn_length = 0;              ///< ... of so many words and marks a turn or more
  bool has_depth = false;               ///< what answers stands at a depth that can be chosen
  bool has_fields = false;              ///< the fields of its files can be renamed
  bool has_official_prompts = false;    ///< its files may come with the prompts of its authors
  std::function<std::vector<Dialogue>(const std::filesystem::path& source, const BuildOptions&)>
      load = nullptr;
};

/// All datasets: the generators for the embedded model (tiny-*); what is hidden in other text and
/// lists of words (needle, ...); LongBench's tasks, those of LongBench-E (TASK_e), and the
/// multi-turn variants of both (mt-NAME); the native files of other collections; `jsonl`, files of
/// one's own.
const std::vector<Dataset>& all_datasets();

/// True if `source` is a file, or a directory or a zip archive that has the dataset's.
bool has_file(const Dataset& dataset, const std::filesystem::path& source);

/// Refuses an unknown name with the nearest known one; `where` names the place in messages.
const Dataset& find_dataset(std::string_view name, const std::string& where);

/// The dialogues of a dataset, questions at the end.  `source` is a file or a directory, empty for
/// datasets that need none.  Refuses a source, a length, a depth, names of fields or official
/// prompts for datasets that have none, and several turns for sets of one.
std::vector<Dialogue> load_dialogues(std::string_view name, const std::filesystem::path& source,
                                     const BuildOptions& options);

}  // namespace turnbench
