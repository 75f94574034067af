#pragma once

#include <string_view>
#include <vector>

#include "methods/method.h"

namespace turnbench {

/// The prompt tokens that an eviction method keeps per set.  `mean` is their number, or share of
/// the prompt, as a mean over the layers; `rule` defines how the layers share it.  Compensation
/// adds tokens to an eviction method for a fair comparison with a method that transfers data (the
/// "(C)" baselines of PQCache).
struct LayerBudget {
  enum class Compensation {
    kNone,
    kIndex,  ///< for the bytes that the other method transfers for its selection: a share e of the
             ///< bytes of all keys.  A token is a key and a value, so these equal e n / 2 tokens.
    kAll     ///< also for the keys and values that it transfers: the top-k of PQCache
  };

  std::string_view method;  ///< name for messages
  Budget mean;
  LayerRule rule;
  Compensation compensation = Compensation::kNone;
  double communication = 0;  ///< e
  int sinks = 0;  ///< first tokens that the method always keeps; only used to compute shares

  /// Tokens kept of a prompt of `n` tokens, as a mean over the layers: the number, or floor(rho n),
  /// plus floor(e n / 2) and the transferred tokens as the compensation requires.  With sinks,
  /// which are included, a share below 1 applies to the other tokens, in two equal halves: sinks +
  /// 2 floor((rho + e / 2) (n - sinks) / 2).
  int tokens(int n) const;

  /// Tokens that the view's layer chooses in addition to the `fixed` tokens that every layer keeps.
  /// A share applies to all prompt tokens of the dialogue, including those that the layer has
  /// evicted, so that shares do not compound from turn to turn and their mean equals the budget.
  /// May exceed the number of cached tokens.  Refuses layer weights whose number differs from the
  /// model's layers.
  int choices(const LayerView& view, int fixed) const;

 private:
  int fetched(int n) const;  ///< PQCache's top-k
};

/// Refuses a budget given in tokens that leaves no room besides the `fixed` tokens, which are
/// always kept or read.  (The tokens of a ratio budget depend on the prompt, so it is not checked.)
/// always: name of the fixed tokens for messages.
void check_room(std::string_view method, const Budget& budget, int fixed, std::string_view always);

/// The value of "sinks"; refuses a value of "budget" that the sinks fill.
int checked_sinks(std::string_view method, const Parameters& parameters);

/// Parameter "layers".
ParameterInfo layers_parameter();
/// Parameters "beta" and "pyr_exact" of methods whose layers always share the budget as a pyramid.
std::vector<ParameterInfo> pyramid_parameters();
/// Parameters "comp" and "comm".
std::vector<ParameterInfo> compensation_parameters();

/// The values of "budget" and of those parameters above that the method declares.
LayerBudget layer_budget(std::string_view method, const Parameters& parameters);

}  // namespace turnbench
