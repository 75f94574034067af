#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/json.h"
#include "inference/policy/policy.h"
#include "methods/parameters.h"
#include "methods/spec.h"

namespace turnbench {

class EvictionScorer;
struct ModelConfig;
struct MethodAction;  // methods/actions/action.h

/// How the parameter "budget" deviates from its plain meaning: the number of tokens that a KV head
/// keeps of a prompt, or reads.
struct BudgetTraits {
  /// The budget includes the current token of a decode step: budget - 1 tokens of the prompt
  /// remain.
  bool counts_current = false;
  bool per_query_head = false;  ///< tokens that each query head reads
  /// A share refers to the tokens after the "sinks", which are kept in addition.
  bool sinks_on_top = false;
  /// Memory traffic of a step, in tokens: half as many tokens are read, and more are kept.
  bool is_traffic = false;
};

/// One acceleration method: its description, its parameters, and the factory of its policies.
struct MethodInfo {
  std::string_view name;
  std::string_view summary;      ///< one line
  std::string_view paper;        ///< authors, title, year
  std::string_view budget_unit;  ///< the quantity that its budget limits
  std::string_view deviations;   ///< reconstructed details and own decisions, or ""
  std::vector<ParameterInfo> parameters;
  BudgetTraits budget_traits = {};
  /// Makes this method's scorer, for use by methods that have a parameter "scorer".  It receives
  /// the values of the other method's parameters, which include "window".  null: there is no
  /// scorer.
  std::function<std::shared_ptr<const EvictionScorer>(const Parameters&)> scorer = nullptr;
  /// Makes the policies.  @throws Error (input) for invalid combinations of values.
  std::function<Policies(const Parameters&)> make;
  /// Name of a prefill method that this method contains and with which it shares prefills.  This
  /// method must have all parameters of that method.  "": none.
  std::string_view prefill_of = "";
  /// This method's defaults of placement_parameters(), as far as they differ from the general ones.
  std::map<std::string, std::string> placement = {};
  /// Throws an Error for settings that do not fit a model; null: `check_model` derives all checks
  /// from the units of the parameters.
  std::function<void(const Parameters&, const ModelConfig&)> check_model = nullptr;
  /// Parameters that tables compare under another name, because other methods use that name for the
  /// same quantity; "" if the parameter's name has another meaning in other methods.
  std::map<std::string, std::string> compared_as = {};
  /// The functions that describe the method's actions, as `turnbench method NAME` lists them.
  std::vector<MethodAction (*)()> actions = {};
};

/// A method as an experiment uses it: one entry of the registry, or several composed.
class Method {
 public:
  /// "snapkv:budget=1024", "minference+snapkv:budget=512".  Relative paths of files are resolved
  /// against `folder`, which does not become part of names.
  static Method parse(const std::string& spec, const std::string& where = "method",
                      const std::filesystem::path& folder = {});
  /// Accepts a string of this form, an object {"name": ..., parameter: value, ...}, an array of
  /// such objects to compose, or any of these with a label for tables: {"label": ..., "method":
  /// ...}.
  static Method parse(const JsonView& json, const std::filesystem::path& folder = {});

  /// A method that need not be in the registry, with its default settings.  `info` must outlive it.
  static Method of(const MethodInfo& info);

  const std::string& label() const { return label_; }  ///< for tables; default: as written
  const std::string& name() const { return name_; }    ///< names of its entries, joined by +
  /// Names, and all parameters with their values; equal if and only if the methods are equal.
  const std::string& canonical() const { return canonical_; }
  /// The part of `canonical` that determines the prefill.  Methods with equal keys can share a
  /// prefill.
  const std::string& prefill_key() const { return prefill_key_; }
  Policies make() const;
  /// Policies of this method, made once, to read their traits.
  const Policies& policies() const { return *policies_; }
  /// Whether memory estimates include materialised attention scores.
  bool eager() const { return eager_; }

  /// One entry of the registry with its settings.  `placement` is empty if none was given; the
  /// entry's default placement then applies.
  struct Part {
    const MethodInfo* info;
    Parameters parameters, placement;
    bool evicts_before_question = false;
    int compress_block = 0;  ///< tokens; 0: none
    /// "name:parameter=value,...": the part of the canonical text.
    std::string canonical() const;
    /// What determines the prefill, if it is sparse: `canonical`, or that of `prefill_of`.
    std::string prefill_key() const;
  };
  const std::vector<Part>& parts() const { return parts_; }
  /// The value of a parameter as text, from the first part that has it.  "name" gives the method's
  /// name.
  std::optional<std::string> setting(std::string_view name) const;

 private:
  void add(const MethodInfo& info, const Spec& spec, const std::string& where,
           const std::filesystem::path& folder);
  void finish(std::string label, const std::string& where);
  /// Refuses parts, and non-default placement settings, that would have no effect.
  void require_useful_parts(const std::string& where) const;

  std::vector<Part> parts_;
  Placement placement_;
  std::map<std::string, std::string> given_placement_, default_placement_;  ///< of all parts
  std::string placement_text_;  ///< only if it differs from the method's default
  std::string label_, name_, canonical_, prefill_key_;
  bool eager_ = false;
  std::shared_ptr<const Policies> policies_;
};

/// All methods, in the order in which `list methods` prints them.
const std::vector<MethodInfo>& all_methods();
/// Checks the descriptions of methods: names, parameters, and that each has a `make`.
/// @throws Error (runtime) for the first wrong one.
void check_methods(const std::vector<MethodInfo>& methods);
/// The method with this name.  @throws Error (input) for an unknown name, suggesting the nearest
/// known one; `where` names the place in messages.
const MethodInfo& find_method(const std::string& name, const std::string& where);
/// Parameters that every method accepts: the placement of keys and values.
const std::vector<ParameterInfo>& placement_parameters();
/// The parameters that state when a method evicts.  Their defaults are not part of canonical texts.
/// "compress": every method that evicts only at the end of prompts has it.
const ParameterInfo& compress_parameter();
/// "compress_block": every method that evicts has it.
const ParameterInfo& compress_block_parameter();
/// Refuses a method that evicts within prompts, where prompts are computed in one pass.
/// @throws Error (input); `where` names the place in messages.
void refuse_compression_within_prompts(const Method& method, const std::string& where);

}  // namespace turnbench
