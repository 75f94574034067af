#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "harness/store/sqlite.h"

namespace turnbench {

/// Adds to a store everything of other stores but the results: experiments, cells, models,
/// datasets, dialogues, protocols, environments and judges.  Within a transaction of the caller.
class MergedPlans {
 public:
  explicit MergedPlans(Database& out);
  /// @throws Error (runtime) if an experiment plans other cells there, or a dialogue differs.
  void add(const Database& store);
  /// Gives the experiments their order: that of each store, as far as the stores agree, and that of
  /// the stores.
  void finish();
  /// Things worth knowing, one line each.
  const std::vector<std::string>& notes() const { return notes_; }

 private:
  using Experiment = std::pair<std::string, std::string>;  // name, hash of the manifest

  static std::vector<Experiment> experiments_of(const Database& store);
  void add_datasets(const Database& store);
  void add_dialogues(const Database& store);
  void add_experiments(const Database& store);
  void add_planned_cells(const Database& store, const Experiment& experiment);
  void add_imported_cells(const Database& store, const Experiment& experiment);
  void add_shown(const Database& store, const std::vector<Experiment>& experiments);
  /// Notes the experiments for which the stores show several manifests.
  void note_hidden_manifests();

  Database& out_;
  std::vector<Experiment> order_;
  /// The manifests that the stores show, by the names of experiments: their hashes, and a store.
  std::map<std::string, std::map<std::string, std::string>> shown_;
  std::vector<std::string> notes_;
};

/// The cell in tables: "tiny, tiny-fact, end, snapkv:budget=64".
std::string cell_label(const Database& store, const std::string& cell);

}  // namespace turnbench
