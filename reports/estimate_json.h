#pragma once

#include <string>

#include "common/json.h"
#include "reports/estimate.h"

namespace turnbench {

/// The text of a document: readable, without invisible characters, and with a replacement for
/// ill-formed UTF-8.
std::string json_document(const OrderedJson& json);

/// A number of an estimate; null if there is no mean.
OrderedJson number_json(const Estimate& estimate, double x);

/// Sets "mean", "low" and "high".
void put_estimate(OrderedJson& json, const Estimate& estimate);

/// The estimate, "n" dialogues, "units", "turns", "p", "p_adjusted", and "p_equivalence" if it was
/// tested.
OrderedJson difference_json(const Difference& difference);

}  // namespace turnbench
