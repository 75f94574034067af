#include "reports/comparability.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "common/text.h"
#include "harness/store/method_settings.h"

namespace turnbench {
namespace {

constexpr const char* kNone = "none";

/// Parameters that are compared between all methods which evict, or which keep or read fewer tokens
/// than full attention: methods without such a parameter count as having none.
struct UniversalParameter {
  std::string_view name, subject;
  bool of_evictions = false;
};
constexpr std::array kUniversal = {UniversalParameter{"sinks", "sinks"},
                                   UniversalParameter{"dense_layers", "dense layers"},
                                   UniversalParameter{"pool", "pooling of scores", true},
                                   UniversalParameter{"compress", "compress", true},
                                   UniversalParameter{"compress_block", "compress_block", true}};

/// A method of the table, with the resources that its answers used in all cells of the table.
struct Subject {
  std::string label, canonical;
  MethodSettings settings;
  CellUsage usage;
};

std::vector<Subject> subjects_of(const std::vector<const Cell*>& cells,
                                 const std::map<std::string, CellUsage>& usages) {
  std::vector<Subject> out;
  std::set<std::string> counted;  // cells
  for (const Cell* cell : cells) {
    if (is_probe(*cell) || is_imported(*cell)) continue;
    auto found = std::find_if(out.begin(), out.end(), [&](const Subject& s) {
      return s.canonical == cell->method_canonical;
    });
    if (found == out.end()) {
      found = out.insert(out.end(), {cell->method, cell->method_canonical,
                                     MethodSettings::parse(cell->method_canonical), CellUsage()});
    }
    const auto usage = usages.find(cell->key);
    if (usage != usages.end() && counted.insert(cell->key).second) found->usage += usage->second;
  }
  std::erase_if(out, [](const Subject& s) {
    return s.settings.is_exact() ||
           std::any_of(s.settings.parts.begin(), s.settings.parts.end(),
                       [](const MethodSettings::Part& part) { return part.info == nullptr; });
  });
  return out;
}

/// The value of each method in one respect; nullopt if it has none.
struct Respect {
  std::string subject;
  std::vector<std::optional<std::string>> values;  ///< one for each method
  /// Suffix of a method's name if it has another name for the parameter: " (lw)".
  std::vector<std::string> own_names = {};
  std::string consequence = "";
};

/// Collects respects, and creates remarks for those in which methods differ.
class Remarks {
 public:
  explicit Remarks(const std::vector<Subject>& subjects) : subjects_(subjects) {
    for (const Subject& s : subjects) families_.push_back(s.settings.family());
  }

  /// True if two methods of different families differ and not both families have both values, or if
  /// two methods of one family differ and their labels do not show it.  `parameter`: its name in
  /// labels; "" if labels never show it.
  bool differs(const Respect& respect, std::string_view parameter) const {
    std::set<std::pair<std::string_view, std::string_view>> known;  // family, value
    for (std::size_t i = 0; i < subjects_.size(); ++i) {
      if (respect.values[i]) known.emplace(families_[i], *respect.values[i]);
    }
    for (std::size_t i = 0; i < subjects_.size(); ++i) {
      for (std::size_t j = 0; j < i; ++j) {
        if (!respect.values[i] || !respect.values[j] || *respect.values[i] == *respect.values[j])
          continue;
        if (families_[i] != families_[j]) {
          const bool in_both = known.contains({families_[i], *respect.values[j]}) &&
                               known.contains({families_[j], *respect.values[i]});
          if (!in_both) return true;
          continue;
        }
        const std::string shown = std::string(parameter) + "=";
        const auto shows = [&](const Subject& s) { return s.label.find(shown) != s.label.npos; };
        if (parameter.empty() || (!shows(subjects_[i]) && !shows(subjects_[j]))) return true;
      }
    }
    return false;
  }

  void add(const Respect& respect) {
    ComparabilityRemark remark{respect.subject, {}, respect.consequence, {}};
    std::vector<std::string> values;
    for (std::size_t i = 0; i < subjects_.size(); ++i) {
      if (!respect.values[i]) continue;
      remark.values.emplace(subjects_[i].canonical, *respect.values[i]);
      if (std::find(values.begin(), values.end(), *respect.values[i]) == values.end())
        values.push_back(*respect.values[i]);
    }
    for (const std::string& value : values)
      remark.groups.push_back({value, names_of(respect, value)});
    if (is_known(remark)) return;
    std::erase_if(out_, [&](const auto& other) { return is_part(other, remark); });
    out_.push_back(std::move(remark));
  }

  void add_if_differs(const Respect& respect, std::string_view parameter) {
    if (differs(respect, parameter)) add(respect);
  }

  std::vector<ComparabilityRemark> take() { return std::move(out_); }

 private:
  /// The methods with this value; a family's name if all of its methods have it.
  std::vector<std::string> names_of(const Respect& respect, const std::string& value) const {
    std::vector<std::string> out;
    for (std::size_t i = 0; i < subjects_.size(); ++i) {
      if (respect.values[i] != value) continue;
      const std::string& family = families_[i];
      bool whole = true;
      for (std::size_t j = 0; j < subjects_.size(); ++j) {
        if (families_[j] != family) continue;
        whole &= respect.values[j] == value && subjects_[j].label.starts_with(family);
      }
      std::string name = whole ? family : subjects_[i].label;
      if (!respect.own_names.empty()) name += respect.own_names[i];
      if (std::find(out.begin(), out.end(), name) == out.end()) out.push_back(std::move(name));
    }
    return out;
  }

  /// Methods with two kinds of policies are compared in both; the result for one kind may be a part
  /// of that for the other.
  bool is_known(const ComparabilityRemark& remark) const {
    return std::any_of(out_.begin(), out_.end(),
                       [&](const auto& other) { return is_part(remark, other); });
  }
  static bool is_part(const ComparabilityRemark& part, const ComparabilityRemark& whole) {
    return part.subject == whole.subject && std::includes(whole.values.begin(), whole.values.end(),
                                                          part.values.begin(), part.values.end());
  }

  const std::vector<Subject>& subjects_;
  std::vector<std::string> families_;  // of `subjects_`
  std::vector<ComparabilityRemark> out_;
};

/// A parameter's name in comparisons; "" if it is not comparable.
std::string_view common_name(const MethodInfo& info, std::string_view parameter) {
  const auto found = info.compared_as.find(std::string(parameter));
  return found == info.compared_as.end() ? parameter : std::string_view(found->second);
}

/// The meaning of a special value in the parameter's description: "a quarter of the layers, rounded
/// up" for -1; else the value.
std::string value_text(const ParameterInfo& p, const std::string& value) {
  const std::string_view description = p.description;
  for (const std::string& clause : split(description, "; ")) {
    if (clause.starts_with(value + ": ")) return clause.substr(value.size() + 2);
  }
  return value;
}

/// A part's value of the parameter that is compared as `name`.
struct PartValue {
  const ParameterInfo* parameter = nullptr;
  std::string value;
};
std::optional<PartValue> value_in(const MethodSettings::Part& part, std::string_view name) {
  for (const ParameterInfo* p : {&compress_parameter(), &compress_block_parameter()}) {
    if (name == p->name) return PartValue{p, part.values.at(std::string(name))};
  }
  for (const ParameterInfo& p : part.info->parameters) {
    const auto found = part.values.find(std::string(p.name));
    if (common_name(*part.info, p.name) == name && found != part.values.end() &&
        has_effect(p, part.values)) {
      return PartValue{&p, found->second};
    }
  }
  return std::nullopt;
}

/// The same; with scorer=NAME, the pooling is the default of the method NAME, because that of the
/// part applies to scorer=snapkv only.
std::optional<PartValue> value_of_scores(const MethodSettings::Part& part, std::string_view name) {
  const auto scorer = part.values.find("scorer");
  if (name != "pool" || scorer == part.values.end() || scorer->second == "snapkv")
    return value_in(part, name);
  for (const MethodInfo& method : all_methods()) {
    if (method.name != scorer->second) continue;
    for (const ParameterInfo& p : method.parameters) {
      if (p.name == name) return PartValue{&p, std::string(p.fallback)};
    }
  }
  return std::nullopt;
}

/// The settings that determine the layers which read all tokens: "filters=2/8, wait=1".
std::string settings_of_layers(const MethodSettings::Part& part) {
  std::vector<std::string> out;
  for (const ParameterInfo& p : part.info->parameters) {
    const auto found = part.values.find(std::string(p.name));
    if (p.unit == "layers" && found != part.values.end())
      out.push_back(fmt::format("{}={}", p.name, found->second));
  }
  return join(out, ", ");
}

std::string own_name(const PartValue& found, std::string_view name) {
  return found.parameter->name == name ? "" : fmt::format(" ({})", found.parameter->name);
}

void compare_universal(const std::vector<Subject>& subjects, Remarks& remarks) {
  for (const UniversalParameter& universal : kUniversal) {
    Respect respect{std::string(universal.subject), {}};
    for (const Subject& s : subjects) {
      std::optional<std::string> value;
      std::string name;
      for (const MethodSettings::Part& part : s.settings.parts) {
        if (universal.of_evictions ? !part.kinds.eviction : !part.kinds.limits_tokens()) continue;
        if (const auto found = value_of_scores(part, universal.name)) {
          const std::string text = found->parameter->kind == ParameterInfo::Kind::kLayerList
                                       ? settings_of_layers(part)
                                       : value_text(*found->parameter, found->value);
          value = text == "0" ? kNone : text;
          name = own_name(*found, universal.name);
        } else if (!value) {
          value = kNone;
        }
      }
      respect.values.push_back(value);
      respect.own_names.push_back(value && *value != kNone ? name : "");
    }
    remarks.add_if_differs(respect, universal.name);
  }
}

/// The unit of a parameter; "number" for choices of numbers, which methods may offer differently.
std::string_view unit_of(const ParameterInfo& p) {
  const bool is_number = p.kind == ParameterInfo::Kind::kChoice && !p.unit.empty() &&
                         p.unit.find_first_not_of("0123456789|") == std::string_view::npos;
  return is_number ? "number" : p.unit;
}

/// Compares parameters with the same name and unit in parts of the same kind.
void compare_shared_parameters(const std::vector<Subject>& subjects, Remarks& remarks) {
  constexpr std::array kKinds = {&PolicyKinds::eviction, &PolicyKinds::selection,
                                 &PolicyKinds::prefill, &PolicyKinds::codec};
  for (const auto kind : kKinds) {
    std::vector<std::pair<std::string, std::string_view>> parameters;  // name, unit
    const auto each_part = [&](const Subject& s, const auto& visit) {
      for (const MethodSettings::Part& part : s.settings.parts) {
        if (part.kinds.*kind) visit(part);
      }
    };
    for (const Subject& s : subjects) {
      each_part(s, [&](const MethodSettings::Part& part) {
        for (const ParameterInfo& p : part.info->parameters) {
          const std::pair key{std::string(common_name(*part.info, p.name)), unit_of(p)};
          const bool universal =
              std::any_of(kUniversal.begin(), kUniversal.end(),
                          [&](const UniversalParameter& other) { return other.name == key.first; });
          const bool left_out = key.first.empty() || key.first == "budget" || universal ||
                                p.kind == ParameterInfo::Kind::kFile ||
                                p.kind == ParameterInfo::Kind::kDraft;
          if (!left_out && std::find(parameters.begin(), parameters.end(), key) == parameters.end())
            parameters.push_back(key);
        }
      });
    }
    for (const auto& [name, unit] : parameters) {
      Respect respect{name, {}};
      for (const Subject& s : subjects) {
        auto& value = respect.values.emplace_back();
        std::string& own = respect.own_names.emplace_back();
        each_part(s, [&, &name = name, &unit = unit](const MethodSettings::Part& part) {
          const auto found = value_in(part, name);
          if (!found || unit_of(*found->parameter) != unit) return;
          value = value_text(*found->parameter, found->value);
          own = own_name(*found, name);
        });
      }
      remarks.add_if_differs(respect, name);
    }
  }
}

void compare_budget_units(const std::vector<Subject>& subjects, Remarks& remarks) {
  Respect respect{"budget counts", {}};
  bool any_budget = false;
  for (const Subject& s : subjects) {
    std::vector<std::string> units;
    for (const MethodSettings::Part& part : s.settings.parts) {
      if (!part.kinds.limits_tokens()) continue;
      units.push_back(fmt::format("\"{}\"", part.info->budget_unit));
      any_budget |= part.values.contains("budget");
    }
    respect.values.push_back(units.empty() ? std::nullopt
                                           : std::optional<std::string>(join(units, " and ")));
  }
  if (any_budget) remarks.add_if_differs(respect, "budget");
}

/// Whether a share is one of the text before the question, whose size a store does not contain.
bool evicts_before_question(const MethodSettings::Part& part) {
  const auto found = part.values.find(std::string(compress_parameter().name));
  return found != part.values.end() && found->second == "before_question";
}

/// Finds budgets that were exceeded, on the mean over the records: for eviction, tokens kept at the
/// end of the prompt; for selection, tokens read per decode step.  The tokens of the answer,
/// including the step's own, are not counted against the budget.
void find_exceeded(const std::vector<Subject>& subjects, Remarks& remarks) {
  constexpr double kRounding = 1;  // tokens
  const auto excess = [](const char* subject, std::size_t methods) {
    return Respect{subject, std::vector<std::optional<std::string>>(methods)};
  };
  Respect kept = excess("kept more than the budget, as a mean over turns", subjects.size()),
          read = excess("read more than the budget, as a mean over turns", subjects.size());
  for (std::size_t i = 0; i < subjects.size(); ++i) {
    const CellUsage& usage = subjects[i].usage;
    if (usage.prompt.count == 0) continue;
    for (const MethodSettings::Part& part : subjects[i].settings.parts) {
      const std::optional<Budget> budget = budget_of(part);
      if (!budget || (budget->is_ratio && evicts_before_question(part))) continue;
      const double allowed =
          budget->is_ratio ? budget->value * usage.prompt.value() : budget->value;
      const auto check = [&](Respect& respect, const Mean& found, double on_top) {
        if (found.count == 0 || found.value() <= allowed + on_top + kRounding) return;
        respect.values[i] = fmt::format("{:.0f} tokens of {:.0f}", found.value(), allowed);
      };
      if (part.kinds.selection) {
        check(read, usage.read, usage.answered.value());
      } else {
        check(kept, usage.kept, 0);
      }
    }
  }
  for (const Respect& respect : {kept, read}) {
    const bool any = std::any_of(respect.values.begin(), respect.values.end(),
                                 [](const auto& value) { return value.has_value(); });
    if (any) remarks.add(respect);
  }
}

void compare_codecs(const std::vector<Subject>& subjects, Remarks& remarks) {
  Respect codec{"stored form of keys and values", {}};
  for (const Subject& s : subjects) {
    auto& form = codec.values.emplace_back("floating-point numbers");
    for (const MethodSettings::Part& part : s.settings.parts) {
      if (part.kinds.codec) form = part.name;
    }
  }
  remarks.add_if_differs(codec, "");
}

void compare_placements(const std::vector<Subject>& subjects, Remarks& remarks) {
  Respect placement{"keys and values", {}}, cache{"device cache of a KV head and layer", {}},
      rule{"rule of the device cache", {}};
  bool any_cache = false, any_without = false;  // of methods with a limit of tokens
  for (const Subject& s : subjects) {
    const auto& of = s.settings.placement;
    const bool host = of.at("placement") == "host";
    any_without |= !host && s.settings.limits_tokens();
    placement.values.emplace_back(host ? "host memory" : "device memory");
    auto& size = cache.values.emplace_back();
    auto& cached_by = rule.values.emplace_back();
    if (!host) continue;
    const std::string &tokens = of.at("cache_tokens"), &with = of.at("cache_rule");
    // The cache has at least the tokens that a step reads.
    const bool keeps_step = with != "lru" && with != "lfu";
    size = tokens != "0" ? tokens + " tokens" : keeps_step ? "what a step reads" : kNone;
    if (*size != kNone) cached_by = with;
    any_cache |= *size != kNone;
  }
  const std::string consequence =
      "bytes over the link and on the device are not comparable between these";
  placement.consequence = cache.consequence = consequence;
  remarks.add_if_differs(placement, "placement");
  if (remarks.differs(cache, "cache_tokens") || (any_cache && any_without)) remarks.add(cache);
  remarks.add_if_differs(rule, "cache_rule");
}

}  // namespace

std::vector<ComparabilityRemark> comparability(const std::vector<const Cell*>& cells,
                                               const std::map<std::string, CellUsage>& usages) {
  const std::vector<Subject> subjects = subjects_of(cells, usages);
  Remarks remarks(subjects);
  compare_shared_parameters(subjects, remarks);
  compare_universal(subjects, remarks);
  compare_budget_units(subjects, remarks);
  find_exceeded(subjects, remarks);
  compare_codecs(subjects, remarks);
  compare_placements(subjects, remarks);
  return remarks.take();
}

std::string describe(const ComparabilityRemark& remark) {
  std::vector<std::string> groups;
  for (const ComparabilityRemark::Group& group : remark.groups) {
    std::vector<std::string> methods;
    for (const std::string& name : group.methods) methods.push_back(printable(name));
    groups.push_back(fmt::format("{} in {}", group.value, join(methods, ", ")));
  }
  std::string out = remark.subject + ": " + join(groups, "; ");
  if (!remark.consequence.empty()) out += " (" + remark.consequence + ")";
  return out;
}

std::string comparability_of(const std::vector<ComparabilityRemark>& remarks,
                             const std::vector<const Cell*>& cells) {
  std::vector<std::string> methods;
  for (const Cell* cell : cells) {
    std::vector<std::string> values;
    for (const ComparabilityRemark& remark : remarks) {
      const auto found = remark.values.find(cell->method_canonical);
      if (found != remark.values.end()) values.push_back(remark.subject + ": " + found->second);
    }
    std::string text = join(values, "; ");
    if (std::find(methods.begin(), methods.end(), text) == methods.end())
      methods.push_back(std::move(text));
  }
  return join(methods, " | ");
}

}  // namespace turnbench
