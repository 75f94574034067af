#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace turnbench {

/// Cells of an experiment that its manifest does not plan stand behind all that it does, from this
/// place on.
constexpr int kFirstImported = 1'000'000;

/// One entry of a table: what it measures, under which settings.
struct Cell {
  std::string key;  ///< hash of everything that can move its results
  std::string model, dataset, task, position, method, history, answers, metric, postprocess;
  std::string model_hash, dataset_hash, method_canonical;
  std::string protocol;       ///< hash of the protocol card
  std::string protocol_text;  ///< the card itself, JSON
};

/// How a cell's canonical method begins if it is a probe.
constexpr std::string_view kProbePrefix = "probe ";

/// Whether a cell measures by a probe: it has no answers to score.
bool is_probe(const Cell& cell);

/// Whether its answers were made elsewhere.
bool is_imported(const Cell& cell);

/// A setting of a cell's method or probe, as it is stored with the cell: today's registry need not
/// know it.  "name" is the method's own; nothing if it has no such setting.
std::optional<std::string> setting_of(const Cell& cell, std::string_view name);

/// Hash of all that can move a cell's results: everything else in it must be set.
std::string cell_key(const Cell& cell);

}  // namespace turnbench
