#pragma once

#include <string_view>
#include <vector>

#include "methods/parts/budget_parameters.h"

namespace turnbench {

/// Settings of the methods that keep the last tokens of a prompt (the window) and, of the tokens
/// before it, those with the highest scores.
struct WindowSettings {
  LayerBudget budget;           ///< tokens kept per set, the window included
  int window = 0;               ///< tokens
  int sinks = 0;                ///< first tokens that the scores keep in any case
  bool per_query_head = false;  ///< a kept set per query head instead of per KV head

  /// Tokens that the view's layer chooses per set before the window: its budget minus the window,
  /// or all of them if the prompt fits.  Refuses a budget that the window and the sinks fill.
  int choices(const LayerView& view) const;
};

/// Parameters "budget" and "window" with their defaults.
std::vector<ParameterInfo> budget_and_window_parameters(std::string_view budget,
                                                        std::string_view window);
/// The same, then "kernel", "pool", "gran" and "gqa_agg".  pooled_with: the condition under which
/// "kernel" and "pool" have an effect (ParameterInfo::only_with); "": always.
std::vector<ParameterInfo> window_parameters(std::string_view budget, std::string_view window,
                                             std::string_view kernel,
                                             std::string_view pooled_with = "");
/// Settings from the values of `budget_and_window_parameters`; refuses a budget that the window
/// fills.
WindowSettings budget_and_window_settings(std::string_view method, const Parameters& parameters);
/// Settings from the values of `window_parameters`; also refuses an even kernel.
WindowSettings window_settings(std::string_view method, const Parameters& parameters);
/// The value of "kernel"; refuses an even one.
int odd_kernel(std::string_view method, const Parameters& parameters);

}  // namespace turnbench
