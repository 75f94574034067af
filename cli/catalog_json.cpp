#include "cli/catalog_json.h"

#include <nlohmann/json.hpp>

#include "cli/method_actions.h"
#include "cli/method_settings.h"

namespace turnbench {
namespace {

std::string_view kind_name(ParameterInfo::Kind kind) {
  switch (kind) {
    case ParameterInfo::Kind::kBudget:
      return "budget";
    case ParameterInfo::Kind::kInteger:
      return "integer";
    case ParameterInfo::Kind::kNumber:
      return "number";
    case ParameterInfo::Kind::kFlag:
      return "flag";
    case ParameterInfo::Kind::kChoice:
    case ParameterInfo::Kind::kScorer:
      return "choice";
    case ParameterInfo::Kind::kFile:
      return "file";
    case ParameterInfo::Kind::kDraft:
      return "directory";
    case ParameterInfo::Kind::kLayers:
      return "layers";
    case ParameterInfo::Kind::kLayerList:
      return "layer list";
    case ParameterInfo::Kind::kMethod:
      return "method";
  }
  return "";
}

OrderedJson to_json(const ParameterInfo& p) {
  OrderedJson out = {{"name", p.name},
                     {"kind", kind_name(p.kind)},
                     {"default", p.fallback},
                     {"unit", unit_or_values(p)},
                     {"description", p.description}};
  if (!p.only_with.empty()) out["only_with"] = p.only_with;
  return out;
}

std::string_view kind_name(ActionOption::Kind kind) {
  switch (kind) {
    case ActionOption::Kind::kText:
      return "text";
    case ActionOption::Kind::kInteger:
      return "integer";
    case ActionOption::Kind::kChoice:
      return "choice";
    case ActionOption::Kind::kFlag:
      return "flag";
  }
  return "";
}

OrderedJson to_json(const MethodAction& action) {
  OrderedJson out = {
      {"name", action.name}, {"summary", action.summary}, {"options", OrderedJson::array()}};
  std::vector<ActionOption> options = {
      {.name = "model", .required = true, .description = "the model, as in every command"}};
  if (action.reads_dialogues) {
    options.push_back(
        {.name = "dataset", .required = true, .description = "the dataset, see list datasets"});
  }
  options.insert(options.end(), action.options.begin(), action.options.end());
  for (const ActionOption& option : options) {
    OrderedJson one = {{"name", option_text(option.name)},
                       {"kind", kind_name(option.kind)},
                       {"default", option.fallback},
                       {"required", option.required},
                       {"description", option.description}};
    if (!option.choices.empty()) one["choices"] = option.choices;
    out["options"].push_back(std::move(one));
  }
  return out;
}

}  // namespace

std::string_view name_of(ProbeInfo::Input input) {
  switch (input) {
    case ProbeInfo::Input::kText:
      return "the prompt's text";
    case ProbeInfo::Input::kPrompt:
      return "attention over the prompt";
    case ProbeInfo::Input::kAnswer:
      return "attention over the prompt and of the answer";
  }
  return "";
}

OrderedJson to_json(const MethodInfo& m) {
  OrderedJson out = {{"name", m.name},           {"summary", m.summary},
                     {"paper", m.paper},         {"budget", m.budget_unit},
                     {"deviates", m.deviations}, {"parameters", OrderedJson::array()}};
  for (const ParameterInfo& p : m.parameters) out["parameters"].push_back(to_json(p));
  const MethodSettings settings = settings_of(m);
  for (const ParameterInfo& p : settings.compression()) out[std::string(p.name)] = to_json(p);
  out["placement"] = OrderedJson::array();  // empty: device only
  for (const ParameterInfo& p : settings.placement) out["placement"].push_back(to_json(p));
  out["actions"] = OrderedJson::array();
  for (const MethodAction& action : actions_of(m)) out["actions"].push_back(to_json(action));
  return out;
}

OrderedJson to_json(const ProbeInfo& p) {
  OrderedJson out = {{"name", p.name},           {"summary", p.summary},
                     {"paper", p.paper},         {"metric", p.metric},
                     {"sees", name_of(p.input)}, {"compares_dialogues", p.compares_dialogues},
                     {"deviates", p.deviations}, {"parameters", OrderedJson::array()}};
  for (const ParameterInfo& parameter : p.parameters)
    out["parameters"].push_back(to_json(parameter));
  return out;
}

}  // namespace turnbench
