#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "methods/method.h"

namespace turnbench {

/// The kinds of policies that a method has.
struct PolicyKinds {
  bool prefill = false, eviction = false, selection = false, codec = false;
  /// The selection clamps distances (SelectionTraits::max_distance), also if it reads all tokens.
  bool clamps_distances = false;

  bool none() const { return !prefill && !eviction && !selection && !codec; }
  bool limits_tokens() const { return eviction || selection; }
  bool overlaps(const PolicyKinds& other) const {
    return (prefill && other.prefill) || (eviction && other.eviction) ||
           (selection && other.selection) || (codec && other.codec);
  }
};

/// The parts and settings of a canonical method text.  Uses the text and the registry alone: files
/// that it names need not exist, and a store may have methods that this program does not know.
struct MethodSettings {
  struct Part {
    std::string name;
    const MethodInfo* info = nullptr;  ///< null if this program does not know the method
    ParameterValues values;            ///< parameter -> value, defaults included
    PolicyKinds kinds;
  };
  std::vector<Part> parts;
  std::map<std::string, std::string> placement;  ///< values of placement_parameters()

  static MethodSettings parse(std::string_view canonical);

  /// The names of the parts, joined by +.
  std::string family() const;
  /// True if it is full attention, without any policy.
  bool is_exact() const;
  bool limits_tokens() const;
  /// The budget of kept or read tokens, if it has one.
  std::optional<Budget> budget() const;
  /// The value of a parameter, from the first part that has it.
  std::optional<std::string> value(const std::string& name) const;
};

/// The budget of kept or read tokens of a part, if it has one.
std::optional<Budget> budget_of(const MethodSettings::Part& part);

}  // namespace turnbench
