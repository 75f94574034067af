#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace turnbench {

/// The dialogues of one dataset.  A dialogue is named by its place in `ids`, which are sorted.
struct Population {
  std::string name;
  std::vector<std::string> ids;
};

/// The value of one turn of one dialogue.
struct TurnValue {
  std::uint32_t dialogue = 0;  ///< place in the population's ids
  std::int32_t turn = 0;       ///< from 0
  double value = 0;
};

/// The values of one cell.
struct Stratum {
  std::shared_ptr<const Population> population;  ///< null if the cell has no records
  std::vector<TurnValue> turns;                  ///< sorted by dialogue, then by turn; no two equal
  bool is_share = true;                          ///< false for times, bytes and nats
  bool is_signed = false;                        ///< values may be negative
  bool is_exact = false;                         ///< values follow from what is measured
  double scale = 100;                            ///< printed value / stored value
  int failed = 0;                                ///< turns that failed
  int without_value = 0;                         ///< turns where nothing could be measured
  int without_reference = 0;  ///< turns that cannot be scored: there is no reference
};

/// A cell beside the same cell of the method that it is compared with.
struct StratumPair {
  const Stratum *stratum, *baseline;
};

}  // namespace turnbench
