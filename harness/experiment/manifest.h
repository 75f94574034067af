#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "datasets/dialogue.h"
#include "harness/unit/history.h"
#include "inference/dtype.h"
#include "methods/method.h"
#include "probes/probe.h"

namespace turnbench {

struct ModelEntry {
  std::string name;  ///< in tables
  std::string path;  ///< tiny, random:..., or a directory; empty: looked up by name
  std::string dtype = "auto";
  DType kv_dtype = DType::kF32;
  std::string chat_template = "auto";
};

struct DatasetEntry {
  std::string name;
  std::string label;   ///< in tables; unique in a manifest
  std::string task;    ///< groups rows of a table; empty: the dataset's own
  std::string source;  ///< file or directory; empty: looked up by the dataset's collection
  std::string metric, postprocess;  ///< empty: the dataset's own
  std::size_t limit = 0;            ///< dialogues; 0 = the dataset's own number
  std::uint64_t seed = 0;
  int turns = 0;   ///< 0 = the dataset's own
  int length = 0;  ///< of generated dialogues, in words and marks; 0 = the generator's own
  std::optional<double> depth;                ///< of what is hidden, in percent; otherwise drawn
  std::map<std::string, std::string> fields;  ///< what a file of one's own calls its fields
  bool official_prompts = false;              ///< LongBench's own prompts
};

/// What a table's entries are: scores, or what an experiment with `isolated` measures.
struct TableValue {
  std::string_view name, unit;
  double scale = 1;  ///< of the stored value, to its unit
  std::string_view meaning;
  bool lower_is_better = false;
  int digits = 1;  ///< behind the point, where it is printed
};
const std::vector<TableValue>& table_values();
/// Null for the name of a metric: a table may show scores other than its cells' own.
const TableValue* find_table_value(std::string_view name);
/// Whether a table's `value` is scores: by the cells' own metrics, or by the one that it names.
bool shows_scores(std::string_view value);
/// Metrics of this name are the judgements of a rubric: judge:RUBRIC, judge:RUBRIC:DIMENSION.
constexpr std::string_view kJudgePrefix = "judge:";

/// A printed table: the mean of each cell of `rows` x `columns`.
struct TableSpec {
  std::string title;
  std::string value = "score";  ///< of table_values(), or a metric
  std::vector<std::string> rows,
      columns;  ///< dimensions: model, dataset, task, position, method, ...
  std::string
      difference_to;  ///< label of a method or probe; adds the paired difference to it, or empty
};

/// One experiment as data: the file that `run` takes.
struct Manifest {
  std::string name, title, description;
  std::vector<ModelEntry> models;
  std::vector<DatasetEntry> datasets;
  std::vector<Position> positions;
  std::vector<Method> methods;
  std::vector<ProbeSpec> probes;
  std::vector<History> histories;
  std::vector<Answers> answers;
  int max_prompt_tokens = 0;  ///< of a whole dialogue; 0 = what the model was trained for
  int max_new_tokens = 0;     ///< 0 = the dataset's own
  /// For times and memory: each cell runs by itself, after a warm-up, and answers have exactly
  /// max_new_tokens tokens.
  bool isolated = false;
  double temperature = 0;
  std::uint64_t seed = 0;
  std::string system_prompt;
  std::vector<TableSpec> tables;
  std::string published;  ///< CSV beside the manifest, or empty
  std::string smoke;      ///< of a smoke run: the warning that tables and protocol cards carry

  std::filesystem::path path;
  std::string text;

  /// The dataset of this label, which may be empty where there is only one; refuses others as
  /// --dataset.
  const DatasetEntry& dataset(const std::string& label) const;
};

/// Reads and checks a manifest; docs/manifest.md lists the keys.  Unknown keys are refused with the
/// nearest known name.
Manifest load_manifest(const std::filesystem::path& path);
/// What a manifest is read for.  A store keeps manifests of any age: to report on one nobody needs
/// to know its methods, and `methods` and `probes` stay empty.
enum class ManifestUse { kRun, kReport };
Manifest parse_manifest(std::string_view text, const std::string& source,
                        ManifestUse use = ManifestUse::kRun);

/// The dimensions that a table's rows and columns may name; beside them, method.PARAMETER is a
/// setting of the method, and method.name its name without settings.
const std::vector<std::string_view>& table_dimensions();
constexpr std::string_view kSettingPrefix = "method.";

}  // namespace turnbench
