#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "datasets/dialogue.h"
#include "datasets/multi_turn.h"

namespace turnbench {

/// A named source of dialogues.
struct Dataset {
  std::string name;
  std::string description;  ///< one line
  std::string task;         ///< kind: qa, summary, few-shot, synthetic, code, ...
  std::string metric;
  std::string postprocess = "none";  ///< of an answer, before it is scored
  std::string collection;            ///< whose files it is read from (longbench), or empty
  int turns = 1;                     ///< by default
  bool needs_source = false;         ///< true if it is read from files
  std::function<std::vector<Dialogue>(const std::filesystem::path& source, const BuildOptions&)>
      load;
};

/// All datasets: the generators for the embedded model (tiny-*), LongBench's tasks, those of
/// LongBench-E (TASK_e), the multi-turn variants (mt-TASK).
const std::vector<Dataset>& all_datasets();

/// Refuses an unknown name with the nearest known one; `where` names the place in messages.
const Dataset& find_dataset(std::string_view name, const std::string& where);

/// The dialogues of a dataset, questions at the end.  `source` is a file or a directory, empty for
/// datasets that need none.  Sets of one turn take only the limit from `options`, and refuse
/// another number of turns.
std::vector<Dialogue> load_dialogues(std::string_view name, const std::filesystem::path& source,
                                     const BuildOptions& options);

}  // namespace turnbench
