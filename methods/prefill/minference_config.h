#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "inference/policy/policy.h"

namespace turnbench {

/// The pattern of each head: one for all heads, or those of a file in MInference's format, an array
/// with one object per layer, {"head": [type, vertical_size, slash_size, score], ...}.
class MInferenceConfig {
 public:
  enum class Kind { kVerticalSlash, kStream, kBlockSparse };
  struct Head {
    Kind kind = Kind::kVerticalSlash;
    int vertical = 1000, slash = 6096;  ///< lines; for a stream head: tokens of sinks and window
  };

  /// All heads are vertical-slash, with sizes multiplied by `ratio` and rounded down.
  MInferenceConfig(int vertical, int slash, double ratio);
  static MInferenceConfig load(const std::filesystem::path& path, double ratio);

  /// The pattern of a query head; heads that the file does not name are vertical-slash (1000,
  /// 6096).
  const Head& head(int layer, int head) const;
  /// Refuses a file made for a model of another shape.
  void check_shape(const ModelShape& shape) const;

 private:
  MInferenceConfig() = default;
  static Head scaled(Head head, double ratio, const std::string& where);

  std::string source_;
  Head other_;
  std::vector<std::vector<Head>> layers_;  // empty: all heads are `other_`
};

/// The name of a kind in such files: vertical_and_slash, stream_llm, block_sparse.
std::string_view name_of(MInferenceConfig::Kind kind);

}  // namespace turnbench
