#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "methods/parts/budget_sharing.h"

namespace turnbench {

class DraftCheckpoint;

/// A number of tokens, or a share of the available tokens.
struct Budget {
  bool is_ratio = false;
  double value = 0;  ///< tokens, or the share
  /// The number of tokens for `n` available ones: the number itself, or floor(share * n), computed
  /// so that 0.29 of 100 is 29.
  int tokens(int n) const;
};
/// floor(tokens); a number that is below a whole one only by a rounding error counts as this one.
int whole_tokens(double tokens);

/// One setting of a method, as `describe method` prints it.
struct ParameterInfo {
  enum class Kind {
    kBudget,
    kInteger,
    kNumber,
    kFlag,
    kChoice,
    kFile,
    kDraft,  ///< a directory with a draft model, or tiny: the embedded one
    kLayers,
    kLayerList,  ///< ascending layers, "2/8/18", or auto
    kMethod,
    kScorer  ///< the name of a method that registers a scorer
  };
  std::string_view name;
  Kind kind;
  std::string_view fallback;  ///< default value as text; "": the parameter is required
  /// tokens, share, ...; for a choice, its values separated by |; for a draft, the word that
  /// means "no draft"
  std::string_view unit;
  std::string_view description;
  double min = 0, max = 1e9;
  /// "strategy=fixed": the value of another parameter without which this one has no effect.
  /// Alternatives are separated by |.
  std::string_view only_with = "";
};

using ParameterValues = std::map<std::string, std::string, std::less<>>;

/// The unit of a parameter; for a choice or scorer, its values separated by |.  Scorers are those
/// of the registry.
std::string unit_or_values(const ParameterInfo& p);

/// False if the parameter has no effect given these values of the method's parameters.
bool has_effect(const ParameterInfo& p, const ParameterValues& values);

/// `list` followed by `more`.
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
  /// Ascending layers; none if the value is "auto".
  std::vector<int> layer_list(std::string_view name) const;
  /// The path; nullopt if the value is "none".
  std::optional<std::filesystem::path> file(std::string_view name) const;
  /// The draft model; null if the value is the parameter's word for "no draft".
  std::shared_ptr<const DraftCheckpoint> draft(std::string_view name) const;

  /// "name=value,..." in the order of declaration, defaults included.  A file or directory is
  /// written as PATH#HASH with the hash of its content; a given PATH#HASH is refused if the hash
  /// differs.
  const std::string& canonical() const { return canonical_; }
  const ParameterValues& values() const { return values_; }

  /// Checks `given` against the declarations; `where` names the method in messages; relative paths
  /// are resolved against `folder`.  others: parameters that could have been given, too, for the
  /// message about an unknown one.
  static Parameters check(const std::vector<ParameterInfo>& declared,
                          const std::map<std::string, std::string>& given, const std::string& where,
                          const std::filesystem::path& folder = {},
                          const std::vector<ParameterInfo>& others = {});

 private:
  const std::string& text(std::string_view name) const;
  ParameterValues values_;
  std::filesystem::path folder_;
  std::string canonical_;
};

/// The parameter whose value is the method whose scores are used.
constexpr std::string_view kScorerParameter = "scorer";

}  // namespace turnbench
