#include "reports/estimate_json.h"

#include <nlohmann/json.hpp>

#include "reports/escape.h"

namespace turnbench {

std::string json_document(const OrderedJson& json) {
  return escape_json(json.dump(1, ' ', false, OrderedJson::error_handler_t::replace)) + "\n";
}

OrderedJson number_json(const Estimate& estimate, double x) {
  return estimate.known ? OrderedJson(x) : OrderedJson(nullptr);
}

void put_estimate(OrderedJson& json, const Estimate& e) {
  json["mean"] = number_json(e, e.mean);
  json["low"] = e.interval ? number_json(e, e.interval->low) : OrderedJson(nullptr);
  json["high"] = e.interval ? number_json(e, e.interval->high) : OrderedJson(nullptr);
}

OrderedJson difference_json(const Difference& difference) {
  OrderedJson out;
  put_estimate(out, difference.estimate);
  out["n"] = difference.estimate.dialogues;
  out["units"] = difference.estimate.units;
  out["turns"] = difference.estimate.turns;
  out["p"] = difference.against_zero.p;
  out["p_adjusted"] = difference.against_zero.adjusted;
  if (difference.equivalence) out["p_equivalence"] = *difference.equivalence;
  return out;
}

}  // namespace turnbench
