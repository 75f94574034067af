#include "methods/method.h"

// One line per method: the function that describes the method, defined in the file of the same
// name.
#define TURNBENCH_METHODS(X) \
  X(full)                    \
  X(full_eager)              \
  X(int8)                    \
  X(ggml)                    \
  X(kivi)                    \
  X(turboquant)              \
  X(streamingllm)            \
  X(snapkv)                  \
  X(pyramidkv)               \
  X(adakv)                   \
  X(ada_pyramidkv)           \
  X(chunkkv)                 \
  X(sentencekv)              \
  X(rocketkv)                \
  X(sablock)                 \
  X(h2o)                     \
  X(tova)                    \
  X(keyformer)               \
  X(keydiff)                 \
  X(lagkv)                   \
  X(criticalkv)              \
  X(expected_attention)      \
  X(rkv)                     \
  X(duoattention)            \
  X(kvzip)                   \
  X(epicache)                \
  X(oracle)                  \
  X(sparq)                   \
  X(infllm)                  \
  X(round)                   \
  X(quest)                   \
  X(clusterkv)               \
  X(shadowkv)                \
  X(pqcache)                 \
  X(specontext)              \
  X(specontext_self)         \
  X(omnikv)                  \
  X(kascade_decode)          \
  X(a_shape)                 \
  X(tri_shape)               \
  X(minference)              \
  X(flexprefill)             \
  X(xattention)              \
  X(critiprefill)            \
  X(loopserve_prefill)       \
  X(loopserve_decode)        \
  X(loopserve)

namespace turnbench {

#define TURNBENCH_DECLARE(name) MethodInfo name();
TURNBENCH_METHODS(TURNBENCH_DECLARE)
#undef TURNBENCH_DECLARE

const std::vector<MethodInfo>& all_methods() {
#define TURNBENCH_CALL(name) name(),
  static const std::vector<MethodInfo> methods = {TURNBENCH_METHODS(TURNBENCH_CALL)};
#undef TURNBENCH_CALL
  return methods;
}

}  // namespace turnbench
