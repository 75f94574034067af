#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace turnbench {

/// Kascade's anchor layers and head mapping for one model (Deshmukh et al., 2025),
/// read from a file: {"anchors": [0, 2, 8], "heads": [[0, 1], ...]}.
struct AnchorMap {
  std::vector<int> anchors;             ///< ascending; the first one is layer 0
  std::vector<std::vector<int>> heads;  ///< [layers][kv_heads]: the anchor's head that each reads
  std::string source = {};              ///< the file

  /// @throws Error (input) naming the place in the file.
  static AnchorMap load(const std::filesystem::path& path);
  /// @throws Error (input) if the map is for another number of layers or KV heads.
  void check_shape(int layers, int kv_heads) const;
  std::string text() const;  ///< the file
};

}  // namespace turnbench
