#include "methods/parts/window_settings.h"

#include <algorithm>

#include "common/error.h"

namespace turnbench {

int WindowSettings::choices(const LayerView& view) const {
  const int n = view.prompt_tokens, tokens = budget.tokens(n);
  if (n > tokens && n > window + sinks + 1 && tokens <= window + sinks) {
    throw input_error("{}: found a budget of {} tokens of {}, expected more than {}", budget.method,
                      tokens, n,
                      sinks == 0    ? fmt::format("the window of {}", window)
                      : window == 0 ? fmt::format("the {} sinks", sinks)
                                    : fmt::format("the window of {} and {} sinks", window, sinks));
  }
  // Every layer keeps the sinks, too, but they have scores.
  const int chosen = budget.choices(view, window + sinks) + sinks;
  const bool fits = n <= tokens || n <= window + 1;
  return fits ? std::max(0, n - window) : chosen;
}

std::vector<ParameterInfo> budget_and_window_parameters(std::string_view budget,
                                                        std::string_view window) {
  using Kind = ParameterInfo::Kind;
  return {{"budget", Kind::kBudget, budget, "tokens or share", "prompt tokens kept per set"},
          {"window", Kind::kInteger, window, "tokens", "last tokens of the prompt, always kept", 1,
           4096}};
}

std::vector<ParameterInfo> window_parameters(std::string_view budget, std::string_view window,
                                             std::string_view kernel,
                                             std::string_view pooled_with) {
  using Kind = ParameterInfo::Kind;
  return and_also(
      budget_and_window_parameters(budget, window),
      {{"kernel", Kind::kInteger, kernel, "tokens", "width of the pooling kernel, odd", 1, 255,
        pooled_with},
       {.name = "pool",
        .kind = Kind::kChoice,
        .fallback = "max",
        .unit = "max|avg|none",
        .description = "pooling of the scores",
        .only_with = pooled_with},
       {"gran", Kind::kChoice, "kv_head", "kv_head|query_head", "heads with separate kept sets"},
       {"gqa_agg", Kind::kChoice, "mean", "mean|max|sum",
        "reduction over the query heads of a KV head"}});
}

WindowSettings budget_and_window_settings(std::string_view method, const Parameters& p) {
  WindowSettings out{.budget = layer_budget(method, p), .window = p.integer("window")};
  check_room(method, out.budget.mean, out.window, fmt::format("a window of {}", out.window));
  return out;
}

WindowSettings window_settings(std::string_view method, const Parameters& p) {
  WindowSettings out = budget_and_window_settings(method, p);
  out.per_query_head = p.choice("gran") == "query_head";
  odd_kernel(method, p);
  return out;
}

int odd_kernel(std::string_view method, const Parameters& p) {
  const int kernel = p.integer("kernel");
  if (kernel % 2 == 0)
    throw input_error("{}: kernel: found {}, expected an odd number", method, kernel);
  return kernel;
}

}  // namespace turnbench
