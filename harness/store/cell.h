#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace turnbench {

/// The first ordinal of imported cells, which follow the planned cells of an experiment.
constexpr int kFirstImportedOrdinal = 1'000'000;

/// One entry of a table: the quantity, and the settings under which it is measured.
struct Cell {
  std::string key;  ///< hash of everything that influences its results
  std::string model, dataset, task, position, method, history, answers, metric, postprocess;
  std::string model_hash, dataset_hash, method_canonical;
  std::string protocol;       ///< hash of the protocol card
  std::string protocol_text;  ///< the card itself, JSON
};

/// Prefix of `Cell::method_canonical` for probes.
constexpr std::string_view kProbePrefix = "probe ";

/// Prefix of `Cell::method` and `Cell::method_canonical` for imported predictions.
constexpr std::string_view kImportedPrefix = "imported:";

/// True if the cell belongs to a probe, which has no answers.
bool is_probe(const Cell& cell);

/// True if the cell's answers were imported.
bool is_imported(const Cell& cell);

/// A setting of the cell's method or probe, or its name for "name"; nullopt if it has no such
/// setting.  Uses the cell alone: the registry need not know the method.
std::optional<std::string> setting_of(const Cell& cell, std::string_view name);

/// The label of the cell's method without budgets: "snapkv:budget=64,window=8" ->
/// "snapkv:window=8". Methods of a sweep over budgets have one variant.
std::string variant_of(const Cell& cell);

/// Hash of everything that influences a cell's results.  All fields except `key` must be set.
std::string cell_key(const Cell& cell);

}  // namespace turnbench
