#include "methods/method.h"

namespace turnbench {

/// Exact attention over all tokens of the dialogue.
MethodInfo full() {
  return {.name = "full",
          .summary = "full attention, tiled: the exact reference",
          .paper = "Vaswani et al., Attention Is All You Need, 2017",
          .budget_unit = "no budget: every token is kept and attended",
          .deviations = "",
          .parameters = {},
          .make = [](const Parameters&) { return Policies{}; }};
}

/// The same answers; memory estimates include materialised attention scores.
MethodInfo full_eager() {
  return {.name = "full-eager",
          .summary =
              "full attention with the memory of an eager implementation: scores materialised, KV "
              "repeated",
          .paper = "the eager attention of Hugging Face Transformers",
          .budget_unit = "no budget: every token is kept and attended",
          .deviations =
              "scores are computed in tiles; the memory of materialised scores (heads x rows x "
              "tokens) and of keys and values repeated for every query head is added to the memory "
              "estimate, which decides whether a run fits",
          .parameters = {},
          .make = [](const Parameters&) { return Policies{}; }};
}

}  // namespace turnbench
