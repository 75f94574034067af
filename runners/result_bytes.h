#pragma once

#include <cstdint>
#include <vector>

#include "harness/run/unit.h"

namespace turnbench {

/// What a worker process sends of a unit that has ended.
struct SentResult {
  UnitResult unit;
  std::vector<ScoreValue> scores;
};

/// The result as bytes for another process of this program on this machine.
std::vector<std::uint8_t> to_bytes(SentResult result);
/// @throws Error (runtime) unless the bytes are those of `to_bytes`.
SentResult result_from_bytes(const std::vector<std::uint8_t>& bytes);

}  // namespace turnbench
