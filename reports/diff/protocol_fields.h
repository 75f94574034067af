#pragma once

#include <string>
#include <utility>
#include <vector>

#include "harness/store/store.h"

namespace turnbench {

/// Names with values, in the order of the protocol card.
using ProtocolFields = std::vector<std::pair<std::string, std::string>>;

/// Everything that a cell's results depend on, by name: the protocol card ("prompt.truncation"),
/// position, history, answers and the method's settings ("method.window"), the hashes of the
/// sources ("sources.engine"), and the build and the machine.  Several values of one field, as of
/// records that two builds computed, are joined by "; ".
ProtocolFields protocol_fields(const Store& store, const Cell& cell);

/// A field in which two cells part: its values, or "-" where a cell has no such field.
struct FieldChange {
  std::string field, first, second;
};
std::vector<FieldChange> changed_fields(const ProtocolFields& first, const ProtocolFields& second);

/// Adds names to a list in which each occurs once: a new name follows the one that it follows in
/// `names`.
void merge_in_order(std::vector<std::string>& list, const std::vector<std::string>& names);

}  // namespace turnbench
