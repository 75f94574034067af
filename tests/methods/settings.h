#pragma once

// Settings of methods by parameter name, for tests that cover the whole registry.  A new parameter
// name needs a line in kSmall if its default would give the method nothing to do on a short prompt,
// and in kOff if the parameter can switch the method off.  A method needs a line in
// kIndicesOfPrompts if its steps select other tokens than with an index over all tokens.

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "methods/method.h"

namespace turnbench::test {

using Values = std::map<std::string, std::string>;

struct Setting {
  std::string_view name;
  ParameterInfo::Kind kind;
  std::string_view value;
};

constexpr int kBudget = 24, kWindow = 4;  ///< of `kSmall`

/// Settings under which a method drops tokens of a prompt of 200 tokens.
inline const std::vector<Setting> kSmall = {{"budget", ParameterInfo::Kind::kBudget, "24"},
                                            {"window", ParameterInfo::Kind::kInteger, "4"},
                                            {"kernel", ParameterInfo::Kind::kInteger, "3"},
                                            {"sinks", ParameterInfo::Kind::kInteger, "2"},
                                            {"local", ParameterInfo::Kind::kInteger, "16"},
                                            {"recent", ParameterInfo::Kind::kInteger, "6"},
                                            {"residual", ParameterInfo::Kind::kInteger, "64"},
                                            {"last", ParameterInfo::Kind::kInteger, "8"},
                                            {"n_d", ParameterInfo::Kind::kInteger, "2"},
                                            {"first", ParameterInfo::Kind::kInteger, "1"},
                                            {"alpha", ParameterInfo::Kind::kNumber, "0.8"},
                                            {"samples", ParameterInfo::Kind::kInteger, "16"},
                                            {"init", ParameterInfo::Kind::kInteger, "2"},
                                            {"n_init", ParameterInfo::Kind::kInteger, "2"},
                                            {"n_local", ParameterInfo::Kind::kInteger, "16"},
                                            {"n_last", ParameterInfo::Kind::kInteger, "4"},
                                            {"vertical", ParameterInfo::Kind::kInteger, "30"},
                                            {"slash", ParameterInfo::Kind::kInteger, "100"},
                                            {"gamma", ParameterInfo::Kind::kNumber, "0.3"},
                                            {"min_budget", ParameterInfo::Kind::kInteger, "1"},
                                            {"block", ParameterInfo::Kind::kChoice, "64"},
                                            {"block", ParameterInfo::Kind::kInteger, "8"},
                                            {"segment", ParameterInfo::Kind::kInteger, "64"},
                                            {"threshold", ParameterInfo::Kind::kInteger, "0"},
                                            {"layer_skip", ParameterInfo::Kind::kInteger, "0"},
                                            {"page", ParameterInfo::Kind::kInteger, "4"},
                                            {"dense_layers", ParameterInfo::Kind::kInteger, "0"},
                                            {"cluster_tokens", ParameterInfo::Kind::kInteger, "8"},
                                            {"r", ParameterInfo::Kind::kInteger, "4"},
                                            {"rank", ParameterInfo::Kind::kInteger, "6"},
                                            {"d", ParameterInfo::Kind::kInteger, "0"},
                                            {"outliers", ParameterInfo::Kind::kInteger, "2"},
                                            {"lag", ParameterInfo::Kind::kInteger, "6"},
                                            {"lw", ParameterInfo::Kind::kInteger, "1"},
                                            {"wait", ParameterInfo::Kind::kInteger, "0"}};

/// Settings that switch a method off, so that it gives full attention.
inline const std::vector<Setting> kOff = {{"budget", ParameterInfo::Kind::kBudget, "100000"},
                                          {"local", ParameterInfo::Kind::kInteger, "99999"},
                                          {"alpha", ParameterInfo::Kind::kNumber, "1"},
                                          {"n_local", ParameterInfo::Kind::kInteger, "100000"},
                                          {"slash", ParameterInfo::Kind::kInteger, "100000"},
                                          {"gamma", ParameterInfo::Kind::kNumber, "1.001"},
                                          {"residual", ParameterInfo::Kind::kInteger, "64000"},
                                          {"sparsity", ParameterInfo::Kind::kNumber, "0"},
                                          {"lw", ParameterInfo::Kind::kInteger, "100000"}};

/// Parameters that multiply the budget: with the value x, a budget of B tokens keeps x B.
inline const std::vector<Setting> kBudgetFactors = {
    {"semantic_factor", ParameterInfo::Kind::kNumber, ""}};

/// Methods whose steps select other tokens than with an index built over all tokens, the setting
/// that causes this (empty: any), and the reason.
struct IndexTrait {
  std::string_view name, setting, value, reason;
};
constexpr IndexTrait kIndicesOfPrompts[] = {
    {"pqcache", "", "", "the centroids are those of the prompt's keys"},
    {"clusterkv", "", "", "tokens of an answer are clustered by themselves, `window` at a time"},
    {"shadowkv", "", "", "tokens of an answer are pinned and have no landmarks"},
    {"omnikv", "", "", "the tokens are those of the prompt; the answer is read whole"},
    {"sentencekv", "", "", "the sentences are those of the prompt; the answer is read whole"},
    {"infllm", "", "", "a token's representative score is what the tokens after it attended to"},
    {"specontext", "", "", "the index is the retriever's, which sees every pass"},
    {"loopserve", "", "", "a selection holds for n_d tokens"},
    {"loopserve-decode", "", "", "a selection holds for n_d tokens"},
    {"quest", "retain_generated", "true", "the answer is read whole"}};

/// Rules by which the layers of any model can share a budget.
constexpr std::string_view kLayerRules[] = {"pyramid", "pyramid/3"};

/// Additional tokens under the parameter `comp`, which compensates a method for other methods'
/// transfers.  The method keeps `tokens` tokens of `prompt`.
inline int compensation(const Values& values, int tokens, int prompt) {
  const auto comp = values.find("comp");
  if (comp == values.end() || comp->second == "none") return 0;
  const int index = prompt / 256;  // e n / 2 with e = 1/128
  return comp->second == "index" ? index : index + (prompt - 32) * tokens / (2 * prompt);
}

/// Layers that read all tokens under the values of kSmall.
inline int dense_layers(const MethodInfo& info) {
  return info.name == "omnikv" ? 1 : 0;
}

/// Tokens that a method reads in addition to its budget: the answer and, of a method with outliers,
/// the outliers and the part of a prompt after its last chunk.
inline int read_on_top(const MethodInfo& info, const Values& values, int answer) {
  if (info.name == "omnikv") return answer;
  const auto outliers = values.find("outliers");
  if (outliers == values.end()) return 0;
  const auto kind = values.find("class");
  return 8 * std::stoi(outliers->second) +
         (kind != values.end() && kind->second == "offload" ? 95 : 39) + answer;
}

inline const Setting* find(const std::vector<Setting>& table, const ParameterInfo& p) {
  const auto found = std::find_if(table.begin(), table.end(), [&](const Setting& s) {
    return s.name == p.name && s.kind == p.kind;
  });
  return found == table.end() ? nullptr : &*found;
}

inline std::string spec_of(const MethodInfo& info, const Values& values) {
  std::string out(info.name);
  for (const auto& [name, value] : values)
    out += (out.size() == info.name.size() ? ":" : ",") + name + "=" + value;
  return out;
}

/// The values that have an effect; parameters without a value have their defaults.
inline Values effective(const MethodInfo& info, const Values& values) {
  ParameterValues all;
  for (const ParameterInfo& p : info.parameters) all.emplace(p.name, p.fallback);
  for (const auto& [name, value] : values) all[name] = value;
  Values out;
  for (const ParameterInfo& p : info.parameters) {
    const auto given = values.find(std::string(p.name));
    if (given != values.end() && has_effect(p, all)) out.insert(*given);
  }
  return out;
}

inline Values small_values(const MethodInfo& info) {
  Values out;
  for (const ParameterInfo& p : info.parameters) {
    if (const Setting* s = find(kSmall, p)) out[std::string(p.name)] = s->value;
  }
  return effective(info, out);
}

/// True if shares of a budget are rounded one by one, as in a reference implementation.  Their sum
/// may then differ from the budget.
inline bool rounds(const Values& values) {
  return std::any_of(values.begin(), values.end(), [](const auto& value) {
    return value.first.ends_with("_exact") && value.second == "false";
  });
}

/// Why a method's steps may select other tokens than with an index over all tokens; empty if they
/// may not.
inline std::string_view index_of_prompt(const MethodInfo& info, const Values& values) {
  for (const IndexTrait& trait : kIndicesOfPrompts) {
    if (trait.name != info.name) continue;
    const auto value = values.find(std::string(trait.setting));
    if (trait.setting.empty() || (value != values.end() && value->second == trait.value))
      return trait.reason;
  }
  return {};
}

/// Tokens of the budget that are reserved for the current token.
inline int counts_the_current(const MethodInfo& info) {
  return info.budget_traits.counts_current ? 1 : 0;
}

inline bool chooses_by_query_head(const Method& method) {
  return method.setting("gran") == "query_head" || method.setting("perhead") == "true" ||
         std::any_of(method.parts().begin(), method.parts().end(), [](const Method::Part& part) {
           return part.info->budget_traits.per_query_head;
         });
}

inline bool has_budget(const MethodInfo& info) {
  return std::any_of(info.parameters.begin(), info.parameters.end(),
                     [](const ParameterInfo& p) { return p.name == "budget"; });
}

}  // namespace turnbench::test
