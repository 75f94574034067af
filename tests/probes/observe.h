#pragma once

// Layers with known attention, passed to probes as the driver passes those of a model.

#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "methods/parts/layer_sums.h"
#include "probes/probe.h"
#include "tests/methods/prescribed.h"

namespace turnbench::test {

using Layers = std::vector<std::unique_ptr<Layer>>;

/// The layers of a prompt and, if there is one, of its answer.
struct Shown {
  Layers prompt, answer;
  std::vector<int> tokens;  ///< of the prompt
  std::function<std::string(int)> text = [](int) { return " w"; };

  /// Random attention over a prompt of `n` tokens and an answer of `answered` tokens.
  static Shown random(int layers, int kv_heads, int group, int n, int answered,
                      std::uint64_t seed) {
    Shown out;
    for (int l = 0; l < layers; ++l) {
      const std::uint64_t own = seed + 1000 * static_cast<std::uint64_t>(l);
      out.prompt.push_back(std::make_unique<Layer>(kv_heads, group, 8, n, n, own));
      if (answered > 0)  // the same values for the prompt, and further ones
        out.answer.push_back(
            std::make_unique<Layer>(kv_heads, group, 8, n + answered, answered + 1, own));
    }
    out.number_tokens(n);
    return out;
  }

  void number_tokens(int n) {
    tokens.resize(static_cast<std::size_t>(n));
    std::iota(tokens.begin(), tokens.end(), 0);
  }
  DialogueView view() const { return {tokens, {}, 0, 0, text}; }
};

/// The name of a probe, with a method if it requires one.
inline std::string with_required(const ProbeInfo& info) {
  for (const ParameterInfo& p : info.parameters) {
    if (p.name == kMethodParameter) return std::string(info.name) + ":method=full";
  }
  return std::string(info.name);
}

inline void show(Probe& probe, Shown& shown) {
  probe.begin(shown.view());
  int l = 0;
  for (const auto& layer : shown.prompt) {
    layer->dialogue = shown.view();
    const LayerView view = layer->view(l++);
    LayerSums sums(view);
    probe.observe_prompt(sums);
  }
  l = 0;
  for (const auto& layer : shown.answer) {
    const LayerView view = layer->view(l++);
    LayerSums sums(view);
    probe.observe_answer(sums);
  }
  probe.end();
}

inline ProbeResult measured(const std::string& spec, Shown& shown) {
  const auto probe = ProbeSpec::parse(spec).make();
  show(*probe, shown);
  return probe->results().at(0);
}

/// The value of a probe; the test fails if it has none.
inline double value(const std::string& spec, Shown& shown) {
  const ProbeResult out = measured(spec, shown);
  EXPECT_EQ(out.missing, "") << spec;
  return out.value;
}

}  // namespace turnbench::test
