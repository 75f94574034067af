#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "probes/probe.h"

namespace turnbench {

/// The query heads that a probe measures, and how it aggregates them.
struct HeadSelection {
  std::string_view probe;          ///< its name, for messages
  int layer = -1, head = -1;       ///< -1: all
  std::string aggregate = "mean";  ///< mean, or p0, p10, ...: a percentile

  /// Calls task(head) for the selected heads of a layer, in ascending order.
  /// @throws Error (input) if the model has no such layer or head.
  void for_each(const LayerView& view, const std::function<void(std::size_t head)>& task) const;

  /// The mean of the heads' values, or a percentile of them (the nearest value; the lower of two).
  /// Missing if there are no values; `why` is the reason, by default that `eta` amounts to less
  /// than one line.
  ProbeResult reduce(std::vector<double> values,
                     const std::string& why = "eta is no line of so short a prompt") const;
};

/// Parameters "layer", "head" and "over".
std::vector<ParameterInfo> head_parameters();
/// The parameters of `head_parameters`, and "eta".
std::vector<ParameterInfo> line_parameters();
HeadSelection parse_head_selection(std::string_view probe, const Parameters& parameters);

/// floor(eta x lines), robust to rounding: 0.29 of 100 lines are 29.
int line_count(double eta, std::size_t lines);

}  // namespace turnbench
