#include "methods/parts/head_gates.h"

#include <algorithm>
#include <cmath>

#include "common/error.h"
#include "common/file.h"
#include "common/random.h"
#include "common/text.h"
#include "methods/parts/scores.h"

namespace turnbench {

HeadGates HeadGates::load(const std::string& path) {
  HeadGates out{path, {}};
  for_each_line(path, [&](std::string_view line, std::size_t number) {
    out.layers.emplace_back();
    for (const std::string& text : split(trim(line), "\t")) {
      const auto gate = parse_number<double>(text);
      if (!gate || !std::isfinite(*gate)) {
        throw input_error("{}: line {}: found \"{}\" as gate {}, expected a number", path, number,
                          shorten(printable(text), 40), out.layers.back().size() + 1);
      }
      out.layers.back().push_back(static_cast<float>(std::clamp(*gate, 0.0, 1.0)));
    }
  });
  return out;
}

void HeadGates::fit(int model_layers, int kv_heads) {
  if (source.empty()) {
    Random random = Random::from({seed_of("duoattention")});
    layers.assign(static_cast<std::size_t>(model_layers), {});
    for (std::vector<float>& layer : layers) {
      for (int h = 0; h < kv_heads; ++h) layer.push_back(static_cast<float>(random.uniform()));
    }
  }
  if (std::ssize(layers) != model_layers) {
    throw input_error("{}: found {} lines, expected one for each of the model's {} layers", source,
                      layers.size(), model_layers);
  }
  for (std::size_t l = 0; l < layers.size(); ++l) {
    if (std::ssize(layers[l]) == kv_heads) continue;
    throw input_error("{}: line {}: found {} gates, expected the model's {} KV heads", source,
                      l + 1, layers[l].size(), kv_heads);
  }
}

std::vector<bool> HeadGates::smallest(double sparsity) const {
  std::vector<float> negated;
  for (const std::vector<float>& layer : layers) {
    for (const float gate : layer) negated.push_back(-gate);
  }
  std::vector<bool> out(negated.size(), false);
  const double count = std::nearbyint(sparsity * static_cast<double>(out.size()));
  for (const std::int32_t head : top_k(negated, static_cast<int>(count))) out[head] = true;
  return out;
}

}  // namespace turnbench
