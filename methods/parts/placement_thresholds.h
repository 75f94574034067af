#pragma once

#include <cstdint>
#include <vector>

namespace turnbench {

/// A device on which layers have all tokens until they no longer fit (Xu et al., SpeContext, 2025,
/// equations 6 to 8).
struct PlacementMemory {
  /// kPrinted: algorithm 1 as printed, whose budget term lacks the bytes of a key and a value in
  /// half precision (4).  kExact: the head beside the model stores keys alone, and so does the
  /// buffer for what a KV head's queries read in common.
  enum class Formula { kCorrected, kPrinted, kExact };

  double bytes = 0;  ///< for keys and values
  int layers = 0, kv_heads = 0, head_dim = 0, group = 1;
  int requests = 1;  ///< sequences at once
  int budget = 0;    ///< tokens that a layer in host memory has on the device
  int element = 2;   ///< bytes
  Formula formula = Formula::kCorrected;
};

/// S_i for i = 0 .. layers: with that many tokens a sequence no longer fits while i layers are in
/// host memory.  Not below 0.
std::vector<std::int64_t> placement_thresholds(const PlacementMemory& memory);

/// The layers, the last ones, that are in host memory at sequence length `length` (S of algorithm
/// 2: the prompt's length, and in a step that of all tokens with its own): as many as it takes, all
/// at most.
int layers_on_host(const std::vector<std::int64_t>& thresholds, std::int64_t length);

}  // namespace turnbench
