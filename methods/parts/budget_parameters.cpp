#include "methods/parts/budget_parameters.h"

#include <algorithm>
#include <cmath>

#include "common/error.h"

namespace turnbench {
namespace {

// PQCache reads 32 sinks; half of the rest of its budget is the top-k that it transfers.
constexpr int kPqSinks = 32;
constexpr double kPqFetched = 0.5;

}  // namespace

int LayerBudget::tokens(int n) const {
  const double index = compensation == Compensation::kNone ? 0 : communication / 2;
  const int more = compensation == Compensation::kAll ? fetched(n) : 0;
  if (mean.is_ratio && mean.value < 1 && sinks > 0) {
    const double rest = (mean.value + index) * std::max(0, n - sinks) + more;
    return sinks + 2 * static_cast<int>(rest / 2 + 1e-9);
  }
  return mean.tokens(n) + static_cast<int>(index * n) + more;  // B, or floor(rho n), and more
}

int LayerBudget::fetched(int n) const {
  const double share = mean.is_ratio ? mean.value : mean.value / std::max(1, n);
  return static_cast<int>(std::max(0, n - kPqSinks) * share * kPqFetched);
}

int LayerBudget::choices(const LayerView& view, int fixed) const {
  using Kind = LayerRule::Kind;
  const int layers = view.shape.layers, n = view.prompt_tokens;
  if (rule.kind == Kind::kList && rule.weights.size() != static_cast<std::size_t>(layers))
    throw input_error("{}: layers: found {} numbers, expected the model's {}", method,
                      rule.weights.size(), layers);
  const int base = tokens(n) - fixed, candidates = n - fixed;  // base: mean over layers
  // Prompts that fit are kept entirely; KVCache-Factory has no pyramid for short prompts either.
  if (rule.kind == Kind::kEqual || base <= 0 || base >= candidates) return base;
  if (rule.kind == Kind::kPyramid && rule.short_equal && n < 2 * base) return base;
  const std::vector<int> budgets =  // [layers]
      rule.kind == Kind::kPyramid ? pyramid_budgets(layers, base, rule.beta, candidates, rule.exact)
                                  : weighted_budgets(rule.weights, base, candidates);
  return budgets[view.layer];
}

void check_room(std::string_view method, const Budget& budget, int fixed, std::string_view always) {
  if (budget.is_ratio || fixed <= 0 || budget.value > fixed) return;
  throw input_error("{}: found a budget of {} and {}, expected a larger budget", method,
                    budget.value, always);
}

int checked_sinks(std::string_view method, const Parameters& p) {
  const int sinks = p.integer("sinks");
  check_room(method, p.budget("budget"), sinks, fmt::format("{} sinks", sinks));
  return sinks;
}

ParameterInfo layers_parameter() {
  return {
      "layers", ParameterInfo::Kind::kLayers, "equal", "equal|pyramid[/beta]|w0/w1/...",
      "division of the budget among the layers; its mean over the layers is the budget; each "
      "layer keeps the tokens that the method always keeps (window, recent tokens, sinks), and "
      "the other tokens are divided; w: a layer's weight, and tokens that a layer does not have "
      "are divided equally among the others; pyramid: prompts of less than twice the number of "
      "divided tokens have equal budgets"};
}

std::vector<ParameterInfo> pyramid_parameters() {
  using Kind = ParameterInfo::Kind;
  return {{"beta", Kind::kInteger, "20", "",
           "the last layer chooses mean / beta tokens, the first 2 mean - mean / beta", 1, 10000},
          {"pyr_exact", Kind::kFlag, "true", "",
           "the layers' mean is exactly the budget; false: the step is rounded down, as in the "
           "official code"}};
}

std::vector<ParameterInfo> compensation_parameters() {
  using Kind = ParameterInfo::Kind;
  return {{"comp", Kind::kChoice, "none", "none|index|all",
           "additional tokens, as for PQCache's (C) baselines: comm n / 2 (index), or also the "
           "top-k tokens that PQCache fetches (all)"},
          {"comm", Kind::kNumber, "1/128", "share of keys",
           "bytes that PQCache transfers for its decisions, equal to comm n / 2 tokens", 0, 1}};
}

LayerBudget layer_budget(std::string_view method, const Parameters& p) {
  using Compensation = LayerBudget::Compensation;
  LayerBudget out{.method = method, .mean = p.budget("budget"), .rule = {}};
  if (p.has("layers")) out.rule = p.layers("layers");
  if (p.has("beta")) {
    out.rule.kind = LayerRule::Kind::kPyramid;
    out.rule.beta = p.integer("beta");
    out.rule.exact = p.flag("pyr_exact");
  }
  if (!p.has("comp") || p.choice("comp") == "none") return out;
  out.compensation = p.choice("comp") == "all" ? Compensation::kAll : Compensation::kIndex;
  out.communication = p.number("comm");
  return out;
}

}  // namespace turnbench
