#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace turnbench {

/// Time in seconds of a layer's prefill and of the clustering of its keys on some machine, for s
/// tokens and T iterations (PQCache, section 3.3, equations 1 and 2):
///   prefill = prefill_base + prefill_token * s + prefill_pair * s^2
///   clustering = cluster_base + cluster_token * s * T
/// The coefficients are measured once and stored, so that no result depends on a clock.
struct ClusterCosts {
  double prefill_base = 0, prefill_token = 0, prefill_pair = 0;
  double cluster_base = 0, cluster_token = 0;

  /// The iterations that fit into the time of a layer's prefill: equation 3, rounded down and
  /// clamped to [3, 300] as in the official implementation.
  int iterations(std::int64_t tokens) const;

  /// Reads and writes a JSON object with these five numbers.
  /// @throws Error (input) for an invalid file.
  static ClusterCosts load(const std::filesystem::path& path);
  std::string json() const;
};

}  // namespace turnbench
