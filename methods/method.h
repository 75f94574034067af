#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/json.h"
#include "inference/policy/policy.h"
#include "methods/parts/budget_sharing.h"

namespace turnbench {

/// A number of tokens, or a share of the tokens that are there.
struct Budget {
  bool is_ratio = false;
  double value = 0;  ///< tokens, or the share
  /// Tokens out of `n`: the number itself, or floor(share * n), where 0.29 of 100 are 29.
  int tokens(int n) const;
};

/// One setting of a method, as `describe method` prints it.
struct ParameterInfo {
  enum class Kind {
    kBudget,
    kInteger,
    kNumber,
    kFlag,
    kChoice,
    kFile,
    kDirectory,
    kLayers,
    kMethod
  };
  std::string_view name;
  Kind kind;
  std::string_view fallback;  ///< as text; "" means it must be given
  /// tokens, share, ...; for a choice its values, separated by |; for a directory the word that
  /// stands for none
  std::string_view unit;
  std::string_view description;
  double min = 0, max = 1e9;
  /// "strategy=fixed": what another parameter must be, since this one does nothing otherwise.
  /// Alternatives are separated by |.
  std::string_view only_with = "";
};

using ParameterValues = std::map<std::string, std::string, std::less<>>;

/// False if the parameter does nothing beside these values of the method's parameters.
bool has_effect(const ParameterInfo& p, const ParameterValues& values);

/// A list with more at its end.
std::vector<ParameterInfo> and_also(std::vector<ParameterInfo> list,
                                    const std::vector<ParameterInfo>& more);

/// The checked values of a method's parameters; every declared one has a value.
class Parameters {
 public:
  /// Whether the method declares this parameter.
  bool has(std::string_view name) const { return values_.contains(name); }
  Budget budget(std::string_view name) const;
  int integer(std::string_view name) const;
  double number(std::string_view name) const;
  bool flag(std::string_view name) const;
  const std::string& choice(std::string_view name) const;
  LayerRule layers(std::string_view name) const;
  /// The path, or nothing where the value is "none".
  std::optional<std::filesystem::path> file(std::string_view name) const;
  /// The path, or nothing where the value is a word that stands for none.
  std::optional<std::filesystem::path> directory(std::string_view name) const;

  /// "name=value,..." in the order of declaration, defaults included.  A file or a
  /// directory is written as PATH#HASH, the hash of its content.  One that is given so is refused
  /// if its content has another hash.
  const std::string& canonical() const { return canonical_; }
  const ParameterValues& values() const { return values_; }

  /// Checks `given` against the declarations; `where` names the method in messages, relative paths
  /// of files start in `folder`.
  static Parameters check(const std::vector<ParameterInfo>& declared,
                          const std::map<std::string, std::string>& given, const std::string& where,
                          const std::filesystem::path& folder = {});

 private:
  const std::string& text(std::string_view name) const;
  ParameterValues values_;
  std::filesystem::path folder_;
  std::string canonical_;
};

/// The parameter of a probe whose value is a method with settings of its own.  It stands last: all
/// that follows it is the method.
constexpr std::string_view kMethodParameter = "method";

/// A name and its settings, as a command line or a manifest writes them.
struct Spec {
  std::string name;
  std::map<std::string, std::string> given;

  /// "snapkv:budget=1024"; `where` names the place in messages.
  static Spec parse(const std::string& text, const std::string& where);
  /// {"name": "snapkv", "budget": 1024}; `what` names in messages what was expected.
  static Spec parse(const JsonView& object, const std::string& what);
  /// As `parse` reads it, with the settings in alphabetical order, but for a method.
  std::string text() const;
};

struct ModelConfig;

/// One acceleration method: what it is, what can be set, and how its policies are made.
struct MethodInfo {
  std::string_view name;
  std::string_view summary;      ///< one line
  std::string_view paper;        ///< authors, title, year
  std::string_view budget_unit;  ///< what its budget counts
  std::string_view deviations;   ///< what is reconstructed or decided here, or ""
  std::vector<ParameterInfo> parameters;
  /// Refuses combinations that make no sense with an Error.
  std::function<Policies(const Parameters&)> make;
  /// Where its keys and values live, if not on the device: values of placement_parameters().
  std::map<std::string, std::string> placement = {};
  /// Refuses settings that do not fit a model with an Error; null: there are none but those that
  /// `check_model` knows by their units.
  std::function<void(const Parameters&, const ModelConfig&)> check_model = nullptr;
  /// Parameters that tables compare under another name than their own, since other methods have
  /// the same thing under that name; "" if the name means something else elsewhere.
  std::map<std::string, std::string> compared_as = {};
};

/// A method as an experiment uses it: one entry of the registry, or several composed.
class Method {
 public:
  /// "snapkv:budget=1024", "minference+snapkv:budget=512".  Relative paths of files start in
  /// `folder`; they do not get into its names.
  static Method parse(const std::string& spec, const std::string& where = "method",
                      const std::filesystem::path& folder = {});
  /// A string of this form, an object {"name": ..., parameter: value, ...}, an array of such
  /// objects to compose, or any of these with a name for tables: {"label": ..., "method": ...}.
  static Method parse(const JsonView& json, const std::filesystem::path& folder = {});

  /// A method that need not be in the registry, with its default settings.  `info` must outlive it.
  static Method of(const MethodInfo& info);

  const std::string& label() const { return label_; }  ///< as given for tables, or as written
  const std::string& name() const { return name_; }    ///< of its entries, joined by +
  /// Names and every parameter with its value: equal if and only if the methods are.
  const std::string& canonical() const { return canonical_; }
  /// The part of `canonical` that decides the prefill: methods with the same key can share one.
  const std::string& prefill_key() const { return prefill_key_; }
  Policies make() const;
  /// Policies of this method, made once, to read their traits.
  const Policies& policies() const { return *policies_; }
  /// Whether attention counts as materialised scores, which add to the memory that a run needs.
  bool eager() const { return eager_; }

  /// One entry of the registry with its settings.  `placement` is empty if none was given: then
  /// its own holds.
  struct Part {
    const MethodInfo* info;
    Parameters parameters, placement;
  };
  const std::vector<Part>& parts() const { return parts_; }
  /// The value of a parameter as text, from the first part that has it.  "name" gives the method's
  /// name.
  std::optional<std::string> setting(std::string_view name) const;

 private:
  void add(const MethodInfo& info, const Spec& spec, const std::string& where,
           const std::filesystem::path& folder);
  void finish(std::string label, const std::string& where);
  /// Refuses parts, and settings of the placement other than the defaults, that would do nothing.
  void require_useful_parts(const std::string& where) const;

  std::vector<Part> parts_;
  Placement placement_;
  std::map<std::string, std::string> given_placement_, default_placement_;  ///< of all parts
  std::string placement_text_;  ///< if it is not that of the method
  std::string label_, name_, canonical_, prefill_key_;
  bool eager_ = false;
  std::shared_ptr<const Policies> policies_;
};

/// All methods, in the order in which `list methods` prints them.
const std::vector<MethodInfo>& all_methods();
/// Refuses an unknown name with the nearest known one; `where` names the place in messages.
const MethodInfo& find_method(const std::string& name, const std::string& where);
/// Parameters that every method takes: where keys and values live.
const std::vector<ParameterInfo>& placement_parameters();

/// The canonical text of the method that a probe's canonical text ends with; empty if with none.
std::string_view method_in(std::string_view canonical);

/// The value of a setting in a canonical text, from the first method in it that has the setting.
/// "name" gives the names of the methods, joined by +.  The text may be old: its methods need not
/// exist.
std::optional<std::string> setting_in(std::string_view canonical, std::string_view name);

}  // namespace turnbench
