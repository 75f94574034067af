#include "tests/costs/step_costs.h"

#include <fmt/format.h>

#include <memory>

#include "methods/method.h"
#include "tests/cuda/emulation/counters.h"
#include "tests/inference/conversation.h"

namespace turnbench::test {
namespace {

constexpr int kPrompt = 160;            // tokens
constexpr int kBefore = 4, kSteps = 4;  // methods that select at intervals select every four steps

struct SmallModel {
  explicit SmallModel(int layers)
      : backend(make_backend(2)),
        model(small_checkpoint("llama3", layers), *backend, DType::kF32, Math::kF32),
        engine(model, *backend, {}) {}
  std::unique_ptr<Backend> backend;
  Model model;
  Engine engine;
};

Cost mean_of(const emulation::Counters& c) {
  const auto mean = [](std::size_t n) { return static_cast<double>(n) / kSteps; };
  return {.launches = mean(c.launches),
          .graphs = mean(c.graph_launches),
          .nodes = mean(c.graph_nodes),
          .up = mean(c.up_pinned.count + c.up_pageable.count),
          .up_bytes = mean(c.up_pinned.bytes + c.up_pageable.bytes),
          .down = mean(c.down_pinned.count + c.down_pageable.count),
          .down_bytes = mean(c.down_pinned.bytes + c.down_pageable.bytes),
          .within = mean(c.within.count + c.fills),
          .pageable = mean(c.up_pageable.count + c.down_pageable.count),
          .waits = mean(c.waits),
          .seconds = c.seconds() / kSteps};
}

Cost cost_with(int layers, const std::string& method, std::size_t sequences) {
  SmallModel small(layers);
  std::vector<Conversation> talks;
  for (std::size_t i = 0; i < sequences; ++i) {
    talks.emplace_back(small.engine, Method::parse(method).make());
    talks.back().turn(synthetic_tokens(kPrompt, 2 * i + 1));
  }
  const std::vector<int> answer = synthetic_tokens(kBefore + kSteps, 2);
  emulation::Counters before;
  for (int step = 0; step < kBefore + kSteps; ++step) {
    if (step == kBefore) before = emulation::counters();
    answer_together(small.engine, talks, answer[step]);
  }
  return mean_of(emulation::counters() - before);
}

constexpr const char* kColumns = "{:<26}{:>8}{:>7}{:>6}{:>7}{:>8}{:>7}{:>8}{:>8}{:>10}{:>7}{:>9}";

std::string line_of(const std::string& name, const Cost& c) {
  const auto count = [](double n) { return fmt::format("{:.4g}", n); };
  const auto whole = [](double n) { return fmt::format("{:.0f}", n); };
  return fmt::format(fmt::runtime(kColumns), name, count(c.launches), count(c.graphs),
                     count(c.nodes), count(c.up), whole(c.up_bytes), count(c.down),
                     whole(c.down_bytes), count(c.within), count(c.pageable), count(c.waits),
                     whole(1e6 * c.seconds));
}

}  // namespace

StepCost step_cost(const std::string& method, std::size_t sequences) {
  const Cost two = cost_with(2, method, sequences), three = cost_with(3, method, sequences);
  StepCost out{{}, three};
  for (const auto& [name, value] : kCosts) out.layer.*value = three.*value - two.*value;
  return out;
}

std::string table_head() {
  return "A decode step (host-side and copy costs only; kernels at 0)\n" +
         fmt::format(fmt::runtime(kColumns), "", "launches", "graphs", "nodes", "up", "bytes",
                     "down", "bytes", "within", "pageable", "waits", "us") +
         "  target: kernels copies waits\n";
}

std::string lines_of(const std::string& method, const StepCost& cost, const Target& target) {
  return fmt::format("{}\n{}{:>17}{:>7}{:>6}\n{}\n", method, line_of("  a layer", cost.layer),
                     target.kernels, target.copies, target.waits,
                     line_of("  a step of three layers", cost.step));
}

}  // namespace turnbench::test
