#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace turnbench {

/// Units of observation, which are independent of each other.  A unit is identified by its index in
/// `ids`.
struct Units {
  std::string name;
  std::vector<std::string> ids;
};

/// The dialogues of one dataset, sorted by id.  They are the units, unless some of them share texts
/// with each other or with dialogues of other datasets.
struct Population : Units {
  std::shared_ptr<const Units> units;  ///< null: the dialogues
  std::vector<std::uint32_t> unit_of;  ///< by dialogue: index in `units`
};

/// The value of one turn of one dialogue.
struct TurnValue {
  std::uint32_t dialogue = 0;  ///< index in the population's ids
  std::int32_t turn = 0;       ///< from 0
  double value = 0;
};

/// The values of one cell.
struct Stratum {
  std::shared_ptr<const Population> population;  ///< null if the cell has no records
  std::vector<TurnValue> turns;                  ///< sorted by dialogue, then by turn; no two equal
  bool is_share = true;                          ///< false for times, bytes and nats
  bool is_signed = false;                        ///< values may be negative
  bool is_exact = false;      ///< values are determined by what is measured, without sampling error
  double scale = 100;         ///< printed value / stored value
  int failed = 0;             ///< number of failed turns
  int without_value = 0;      ///< number of turns where nothing could be measured
  int without_reference = 0;  ///< number of turns that cannot be scored without a reference
};

/// A cell, and the same cell of the baseline method.
struct StratumPair {
  const Stratum *stratum, *baseline;
};

}  // namespace turnbench
