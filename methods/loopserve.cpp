#include "methods/prefill/loopserve_prefill.h"
#include "methods/selection/loopserve_decode.h"

namespace turnbench {

/// Both halves of LoopServe (Algorithm 1): sparse prefill and progressive decoding.
MethodInfo loopserve() {
  MethodInfo prefill = loopserve_prefill(), decode = loopserve_decode();
  MethodInfo out = prefill;
  out.name = "loopserve";
  out.prefill_of = prefill.name;
  out.summary = "LoopServe: sparse prefill by lines, then progressive decoding";
  out.budget_unit = decode.budget_unit;
  out.deviations = "those of loopserve-prefill and loopserve-decode; takes the parameters of both";
  out.parameters.insert(out.parameters.end(), decode.parameters.begin(), decode.parameters.end());
  out.make = [prefill, decode](const Parameters& p) {
    Policies both = prefill.make(p);
    both.selection = decode.make(p).selection;
    return both;
  };
  return out;
}

}  // namespace turnbench
