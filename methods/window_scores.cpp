#include "methods/window_scores.h"

#include <algorithm>

#include "common/error.h"

namespace turnbench {

std::vector<KeptSet> kept_sets(const LayerView& view, bool per_query_head) {
  const auto cached = view.sets.size();
  const auto count = per_query_head ? static_cast<std::size_t>(view.shape.heads) : cached;
  const int heads = view.shape.heads / static_cast<int>(count);
  std::vector<KeptSet> out;
  for (std::size_t i = 0; i < count; ++i) {
    out.push_back({static_cast<int>(i) * heads, heads, view.sets[i * cached / count].size()});
  }
  return out;
}

Scorer parse_scorer(const std::string& name) {
  return name == "h2o"         ? Scorer::kH2o
         : name == "tova"      ? Scorer::kTova
         : name == "keyformer" ? Scorer::kKeyformer
                               : Scorer::kSnapKv;
}

int WindowSettings::choices(const LayerView& view) const {
  const int n = view.prompt_tokens, tokens = budget.tokens(n);
  if (n > tokens && n > window + 1 && tokens <= window) {
    throw input_error("{}: found a budget of {} tokens of {}, expected more than the window of {}",
                      budget.method, tokens, n, window);
  }
  const int own = budget.choices(view, window);
  return n <= tokens || n <= window + 1 ? std::max(0, n - window) : own;
}

int WindowSettings::rows() const {
  return scorer == Scorer::kSnapKv ? window : scorer == Scorer::kTova ? 1 : 0;
}

std::vector<ColumnRule> WindowSettings::columns() const {
  if (rows() > 0) return {};
  return {{.gumbel = scorer == Scorer::kKeyformer, .temperature = 1}};
}

std::vector<float> WindowSettings::scores(const LayerView& view, const KeptSet& set) const {
  const HeadScores& mass =
      rows() > 0 ? view.stats.window_mass(rows()) : view.stats.column_mass(columns()[0]).scores;
  const int candidates = std::max(0, set.tokens - window);
  const std::vector<float> reduced =
      group_scores(mass, set.first_head, set.heads, candidates, group);
  return scorer == Scorer::kSnapKv ? pool1d(reduced, kernel, pooling) : reduced;
}

std::vector<std::int32_t> WindowSettings::kept(const LayerView& view, const KeptSet& set,
                                               int count) const {
  const int candidates = set.tokens - window;
  if (count >= candidates) return all_slots(set.tokens);
  return with_tail(top_k(scores(view, set), count), candidates, set.tokens);
}

std::vector<ParameterInfo> budget_parameters(std::string_view budget, std::string_view window) {
  using Kind = ParameterInfo::Kind;
  return {{"budget", Kind::kBudget, budget, "tokens or share", "prompt tokens kept per set"},
          {"window", Kind::kInteger, window, "tokens",
           "last tokens of the prompt, which are always kept", 1, 4096}};
}

std::vector<ParameterInfo> window_parameters(std::string_view budget, std::string_view window,
                                             std::string_view kernel) {
  using Kind = ParameterInfo::Kind;
  return and_also(
      budget_parameters(budget, window),
      {{"kernel", Kind::kInteger, kernel, "tokens", "width of the pooling, odd", 1, 255},
       {"pool", Kind::kChoice, "max", "max|avg|none", "pooling of the scores"},
       {"gran", Kind::kChoice, "kv_head", "kv_head|query_head", "what has a kept set of its own"},
       {"gqa_agg", Kind::kChoice, "mean", "mean|max|sum",
        "reduction over the query heads of a KV head"}});
}

WindowSettings budget_settings(std::string_view method, const Parameters& p) {
  WindowSettings out{.budget = layer_budget(method, p), .window = p.integer("window")};
  const Budget& mean = out.budget.mean;
  if (!mean.is_ratio && mean.value <= out.window) {
    throw input_error("{}: found a budget of {} and a window of {}, expected a larger budget",
                      method, mean.value, out.window);
  }
  return out;
}

WindowSettings window_settings(std::string_view method, const Parameters& p) {
  WindowSettings out = budget_settings(method, p);
  out.kernel = p.integer("kernel");
  out.pooling = parse_pooling(p.choice("pool"));
  out.group = parse_group_rule(p.choice("gqa_agg"));
  out.per_query_head = p.choice("gran") == "query_head";
  if (out.kernel % 2 == 0) {
    throw input_error("{}: kernel: found {}, expected an odd number", method, out.kernel);
  }
  return out;
}

std::vector<ParameterInfo> and_also(std::vector<ParameterInfo> list,
                                    const std::vector<ParameterInfo>& more) {
  list.insert(list.end(), more.begin(), more.end());
  return list;
}

}  // namespace turnbench
