#pragma once

#include <string_view>
#include <vector>

#include "methods/method.h"

namespace turnbench {

/// Prompt tokens that an eviction method keeps per set: a number or share of them in the mean over
/// the layers, which share it by a rule, and what a dropping method is given on top to be compared
/// with one that fetches (the "(C)" baselines of PQCache).
struct LayerBudget {
  enum class Compensation {
    kNone,
    kIndex,  ///< for the bytes that the other moves to decide: a share e of all keys' bytes.  A
             ///< token is a key and a value, so that they are worth e n / 2 tokens.
    kAll     ///< for the keys and values that it fetches, too: the top-k of PQCache
  };

  std::string_view method;  ///< as messages name it
  Budget mean;
  LayerRule rule;
  Compensation compensation = Compensation::kNone;
  double communication = 0;  ///< e

  /// Tokens kept of a prompt of `n` in the mean over the layers: floor(rho n), and floor(e n / 2)
  /// and the fetched tokens where they count.
  int tokens(int n) const;

  /// Tokens that the view's layer chooses beside `fixed` ones that every layer keeps.  The share is
  /// one of the dialogue's prompt tokens, whatever the layer still holds of them: so shares do not
  /// compound from turn to turn, and their mean stays the budget.  A layer that holds less keeps
  /// all.  Refuses a list of layers that is not the model's.
  int choices(const LayerView& view, int fixed) const;
};

/// Parameter "layers".
ParameterInfo layers_parameter();
/// Parameters "beta" and "pyr_exact" of methods whose layers always are a pyramid.
std::vector<ParameterInfo> pyramid_parameters();
/// Parameters "comp" and "comm".
std::vector<ParameterInfo> compensation_parameters();

/// What "budget" says, and of the other parameters those that the method takes.
LayerBudget layer_budget(std::string_view method, const Parameters& parameters);

}  // namespace turnbench
