#include "methods/model_check.h"

#include "common/error.h"

namespace turnbench {
namespace {

void check_weights(const ParameterInfo& p, const Parameters& values, const ModelConfig& config) {
  const LayerRule rule = values.layers(p.name);
  if (rule.kind != LayerRule::Kind::kList ||
      rule.weights.size() == static_cast<std::size_t>(config.layers))
    return;
  throw input_error("{}: found {} numbers, expected the model's {}", p.name, rule.weights.size(),
                    config.layers);
}

void check_list(const ParameterInfo& p, const Parameters& values, const ModelConfig& config) {
  const std::vector<int> layers = values.layer_list(p.name);
  if (layers.empty() || layers.back() < config.layers) return;
  throw input_error("{}: found layer {}, expected layers of the model, 0 to {}", p.name,
                    layers.back(), config.layers - 1);
}

/// Checks numbers whose unit is limited by the model.
void check_number(const ParameterInfo& p, const Parameters& values, const ModelConfig& config) {
  const int value = values.integer(p.name);
  if (p.unit == "layer" && value >= config.layers) {
    throw input_error("{}: found {}, expected a layer of the model, 0 to {}", p.name, value,
                      config.layers - 1);
  }
  if (p.unit == "layers" && value > config.layers) {
    throw input_error("{}: found {}, expected at most the model's {} layers", p.name, value,
                      config.layers);
  }
  if (p.unit == "dimensions" && value > config.head_dim) {
    throw input_error("{}: found {}, expected at most the {} dimensions of a head", p.name, value,
                      config.head_dim);
  }
}

}  // namespace

void check_model(const Method& method, const ModelConfig& config) {
  for (const Method::Part& part : method.parts()) {
    with_error_prefix(std::string(part.info->name), [&] {
      for (const ParameterInfo& p : part.info->parameters) {
        if (p.kind == ParameterInfo::Kind::kLayers) check_weights(p, part.parameters, config);
        if (p.kind == ParameterInfo::Kind::kLayerList) check_list(p, part.parameters, config);
        const bool given = part.parameters.values().find(p.name)->second != p.fallback;
        if (p.kind == ParameterInfo::Kind::kInteger && given)
          check_number(p, part.parameters, config);
      }
      if (part.info->check_model) part.info->check_model(part.parameters, config);
      const Policies policies = part.info->make(part.parameters);
      if (const auto* retrieval = capability<StepRetrieval>(policies.selection.get()))
        retrieval->resource(config, DType::kF32);  // throws if sizes do not fit
    });
  }
}

}  // namespace turnbench
