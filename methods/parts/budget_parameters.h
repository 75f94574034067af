#pragma once

#include <string_view>
#include <vector>

#include "methods/method.h"

namespace turnbench {

/// Prompt tokens that an eviction method keeps per set.  `mean` is their number, or share of the
/// prompt, in the mean over the layers; `rule` says how the layers share it.  Compensation adds
/// tokens to a method that drops, so that it compares with one that fetches (the "(C)" baselines of
/// PQCache).
struct LayerBudget {
  enum class Compensation {
    kNone,
    kIndex,  ///< for the bytes that the other method moves to decide: a share e of the bytes of all
             ///< keys.  A token is a key and a value, so these are worth e n / 2 tokens.
    kAll     ///< for the keys and values that it fetches, too: the top-k of PQCache
  };

  std::string_view method;  ///< as messages name it
  Budget mean;
  LayerRule rule;
  Compensation compensation = Compensation::kNone;
  double communication = 0;  ///< e
  int sinks = 0;             ///< first tokens, always kept

  /// Tokens kept of a prompt of `n`, in the mean over the layers: the number, or floor(rho n), and
  /// on top floor(e n / 2) and the fetched tokens where they count.  With sinks, which are among
  /// these, a share below 1 is one of the other tokens, in two equal halves:
  /// sinks + 2 floor((rho + e / 2) (n - sinks) / 2).
  int tokens(int n) const;

  /// Tokens that the view's layer chooses beside the `fixed` tokens that every layer keeps.  A
  /// share is a share of the dialogue's prompt tokens, also of those that the layer has evicted: so
  /// shares do not compound from turn to turn, and their mean stays the budget.  May be more than
  /// the layer holds.  Refuses a list of layers that is not the model's.
  int choices(const LayerView& view, int fixed) const;

 private:
  int fetched(int n) const;  ///< PQCache's top-k
};

/// Refuses a budget of so many tokens that the `fixed` ones which are always kept or read fill it.
/// (How many tokens a share is depends on the prompt.)  always: those tokens as messages name them.
void check_room(std::string_view method, const Budget& budget, int fixed, std::string_view always);

/// Parameter "layers".
ParameterInfo layers_parameter();
/// Parameters "beta" and "pyr_exact", of methods whose layers always share as a pyramid.
std::vector<ParameterInfo> pyramid_parameters();
/// Parameters "comp" and "comm".
std::vector<ParameterInfo> compensation_parameters();

/// The value of "budget", and of those among the parameters above that the method takes.
LayerBudget layer_budget(std::string_view method, const Parameters& parameters);

}  // namespace turnbench
