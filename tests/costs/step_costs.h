#pragma once

// The operations of a decode step on an emulated GPU, for every method.

#include <string>
#include <utility>
#include <vector>

namespace turnbench::test {

/// Means over steps.
struct Cost {
  double launches = 0;           ///< of kernels, without those of graphs
  double graphs = 0, nodes = 0;  ///< graph launches, and the nodes that they run
  double up = 0, up_bytes = 0;   ///< copies from host to device
  double down = 0, down_bytes = 0;
  double within = 0;    ///< copies within the device, and fills
  double pageable = 0;  ///< copies from or to pageable memory, of those above
  double waits = 0;     ///< of the host
  double seconds = 0;   ///< as emulation::Counters::seconds
};
constexpr std::pair<const char*, double Cost::*> kCosts[] = {
    {"launches", &Cost::launches},     {"graphs", &Cost::graphs},
    {"nodes", &Cost::nodes},           {"copies up", &Cost::up},
    {"bytes up", &Cost::up_bytes},     {"copies down", &Cost::down},
    {"bytes down", &Cost::down_bytes}, {"copies within", &Cost::within},
    {"pageable", &Cost::pageable},     {"waits", &Cost::waits},
    {"seconds", &Cost::seconds}};

/// Of a model with three layers: the last layer, and the whole step.
struct StepCost {
  Cost layer, step;
};

/// Decode steps of a small model after a prompt of 160 tokens, once graphs and memory exist. The
/// layer's cost is the difference between the model and its first two layers.
StepCost step_cost(const std::string& method, std::size_t sequences = 1);

/// Upper limits for a layer: kernels and nodes of graphs, copies, waits.
struct Target {
  int kernels = 0, copies = 0, waits = 0;
};

/// The lines of one method in the table of all methods; `table_head` is the line of its columns.
std::string table_head();
std::string lines_of(const std::string& method, const StepCost& cost, const Target& target);

}  // namespace turnbench::test
