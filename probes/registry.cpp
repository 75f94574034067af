#include "probes/probe.h"

// One line per probe: the function that describes it, defined in the file of the same name.
#define TURNBENCH_PROBES(X) \
  X(coverage)               \
  X(line_overlap)           \
  X(segment_overlap)        \
  X(token_overlap)          \
  X(window_overlap)         \
  X(block_overlap)          \
  X(fragmentation)          \
  X(redundancy)             \
  X(block_sizes)            \
  X(output_error)           \
  X(recall)                 \
  X(selected_mass)          \
  X(step_overlap)           \
  X(top_mass)

namespace turnbench {

#define TURNBENCH_DECLARE(name) ProbeInfo name();
TURNBENCH_PROBES(TURNBENCH_DECLARE)
#undef TURNBENCH_DECLARE

const std::vector<ProbeInfo>& all_probes() {
#define TURNBENCH_CALL(name) name(),
  static const std::vector<ProbeInfo> probes = {TURNBENCH_PROBES(TURNBENCH_CALL)};
#undef TURNBENCH_CALL
  return probes;
}

}  // namespace turnbench
