#pragma once

#include <cstdint>
#include <vector>

namespace turnbench {

/// Memory model of a device that stores all tokens of all layers until they no longer fit (Xu et
/// al., SpeContext, 2025, equations 6 to 8).
struct PlacementMemory {
  /// kPrinted: algorithm 1 as printed, whose budget term lacks the bytes of a key and a value in
  /// half precision (4).  kExact: the retrieval head stores only keys, and so does the buffer for
  /// the tokens that the queries of a KV head read in common.
  enum class Formula { kCorrected, kPrinted, kExact };

  double bytes = 0;  ///< available for keys and values
  int layers = 0, kv_heads = 0, head_dim = 0, group = 1;
  int requests = 1;  ///< sequences at once
  int budget = 0;    ///< tokens of an offloaded layer on the device
  int element = 2;   ///< bytes
  Formula formula = Formula::kCorrected;
};

/// S_i for i = 0 ..  layers: the number of tokens from which a sequence no longer fits with i
/// layers offloaded.  Not below 0.
std::vector<std::int64_t> placement_thresholds(const PlacementMemory& memory);

/// The number of offloaded layers, which are the last ones, at sequence length `length` (S of
/// algorithm 2: the length of the prompt, or in a step the number of all tokens including the
/// step's): as many as necessary, at most all.
int layers_on_host(const std::vector<std::int64_t>& thresholds, std::int64_t length);

}  // namespace turnbench
