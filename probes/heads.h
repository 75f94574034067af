#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "probes/probe.h"

namespace turnbench {

/// The query heads that a probe of lines looks at, and what becomes of their values.
struct Heads {
  std::string_view probe;     ///< as messages name it
  int layer = -1, head = -1;  ///< -1: all
  std::string over = "mean";  ///< or p0, p10, ...: a percentile

  /// task(head) for those of a layer, in order; refuses a layer or head that the model lacks.
  void for_each(const LayerView& view, const std::function<void(std::size_t head)>& task) const;

  /// The mean over heads, or the value at a percentile (the nearest one, the lower of two); missing
  /// where no head has a value because `eta` was no line.
  Measured reduce(std::vector<double> values) const;
};

/// Parameters "eta", "layer", "head" and "over".
std::vector<ParameterInfo> line_parameters();
Heads parse_heads(std::string_view probe, const Parameters& parameters);

/// How many of `lines` lines the share `eta` is: floor(eta x lines), where 0.29 of 100 are 29.
int line_count(double eta, std::size_t lines);

}  // namespace turnbench
