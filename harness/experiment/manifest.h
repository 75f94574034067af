#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "datasets/dialogue.h"
#include "harness/experiment/table_spec.h"
#include "harness/run/conversation.h"
#include "inference/model/dtype.h"
#include "methods/method.h"
#include "probes/probe.h"

namespace turnbench {

struct ModelEntry {
  std::string name;  ///< its label in tables
  std::string path;  ///< tiny, random:..., or a directory; empty: found by name (see Locations)
  std::string dtype = "auto";
  DType kv_dtype = DType::kF32;
  Math math = Math::kF32;
  std::string chat_template = "auto";  ///< auto, a known name, or a file relative to the manifest
  std::string template_place = "";     ///< name of `chat_template`'s place in messages
};

struct DatasetEntry {
  std::string name;
  std::string label;                ///< name in tables; unique in a manifest
  std::string task;                 ///< groups rows of a table; empty: the dataset's own
  std::string source;               ///< file or directory; empty: found by the dataset's collection
  std::string metric, postprocess;  ///< empty: the dataset's own
  std::string only;                 ///< selects dialogues by the dataset's own tasks; empty: all
  std::size_t limit = 0;            ///< number of dialogues; 0: the dataset's default
  // As in BuildOptions:
  std::uint64_t seed = 0;
  int turns = 0;
  int length = 0;
  std::optional<double> depth;
  std::map<std::string, std::string> fields;
  bool official_prompts = false;
  std::string leave_out;  ///< relative to the manifest
};

/// The end of the names of smoke runs, which other manifests cannot have.
constexpr std::string_view kSmokeSuffix = ".smoke";

/// An experiment as data: the content of a manifest file.
struct Manifest {
  std::string name, title, description;
  std::vector<ModelEntry> models;
  std::vector<DatasetEntry> datasets;
  std::vector<Position> positions;
  /// No positions are given: a dataset's own positions are used, if it has any.
  bool own_positions = true;
  std::vector<Method> methods;
  std::vector<ProbeSpec> probes;
  std::vector<History> histories;
  std::vector<Answers> answers;
  int max_prompt_tokens = 0;    ///< per dialogue; 0: the context length of the model
  bool past_positions = false;  ///< max_prompt_tokens may exceed the model's positions
  int max_new_tokens = 0;       ///< 0: the dataset's own
  /// For measuring times and memory: each cell runs alone, after a warm-up, and answers have
  /// exactly max_new_tokens tokens.
  bool isolated = false;
  /// Bandwidth to which the link to host memory is throttled; 0: not throttled.
  double link_gbps = 0;
  /// If set, the divergence from full attention is measured token by token along this answer.
  std::optional<Along> fidelity;
  double temperature = 0;
  std::uint64_t seed = 0;
  std::string system_prompt;
  /// Labels of methods and probes that the manifest gives explicitly.
  std::set<std::string> given_labels;
  /// Empty: one table with all dimensions in which the cells differ.
  std::vector<TableSpec> tables;
  std::string published;  ///< CSV of published numbers, relative to the manifest; or empty
  std::string smoke;      ///< for smoke runs, the warning in tables and protocol cards; else empty

  std::filesystem::path path;
  std::string text;

  /// The dataset with this label.  The label may be empty if there is only one dataset.
  /// @throws Error (input) for others; the message names --dataset.
  const DatasetEntry& dataset(const std::string& label) const;
};

/// Reads and checks a manifest; docs/manifest.md lists the keys.
/// @throws Error (input) for unknown keys, with the nearest known one, and for invalid values.
Manifest load_manifest(const std::filesystem::path& path);
/// What a manifest is read for.  With kReport, `methods` and `probes` stay empty: old manifests in
/// a store may have methods that this program does not know, and reports do not need them.
enum class ManifestUse { kRun, kReport };
/// Relative paths of files that methods name are resolved against `folder`.
Manifest parse_manifest(std::string_view text, const std::string& source,
                        ManifestUse use = ManifestUse::kRun,
                        const std::filesystem::path& folder = {});

}  // namespace turnbench
