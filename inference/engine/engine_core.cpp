#include "inference/engine/engine_core.h"

#include <array>
#include <cmath>
#include <numeric>

#include "common/error.h"
#include "inference/model/rope.h"

namespace turnbench {

Stage::Stage(Backend& backend, int head_dim, const EngineOptions& options)
    : backend(backend), memory(backend.memory()), replay(backend.make_replay()) {
  const auto make_pool = [&](bool pre_rope_keys, const std::shared_ptr<Memory>& of) {
    return std::make_shared<KvPool>(PageLayout{head_dim, options.kv_dtype, pre_rope_keys}, of);
  };
  const auto device = make_pool(false, memory), pre_rope_device = make_pool(true, memory),
             host = make_pool(false, host_memory()), pre_rope_host = make_pool(true, host_memory());
  device->set_limit(options.kv_limit);
  pre_rope_device->set_limit(options.kv_limit);
  gathered_pool = make_pool(false, memory);
  const std::shared_ptr<Link> link = make_link(memory, options.link_gbps),
                              within = std::make_shared<OrderedLink>(memory);
  storage = std::make_shared<KvStorage>(KvStorage{device, host, pre_rope_host, link, within});
  pre_rope_storage =
      std::make_shared<KvStorage>(KvStorage{pre_rope_device, pre_rope_host, host, link, within});
}

EngineCore::EngineCore(const Model& model, std::span<Backend* const> backends,
                       const EngineOptions& options)
    : model(model), options(options), background(options.background_threads) {
  if (backends.size() != model.stages().count()) {
    throw runtime_error("engine: found {} backends, expected one for each of the model's {} stages",
                        backends.size(), model.stages().count());
  }
  const ModelConfig& c = model.config();
  for (Backend* backend : backends) stages.emplace_back(*backend, c.head_dim, options);
  shape = {c.layers, c.heads, c.kv_heads, c.head_dim};
  scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(c.head_dim)));
}

void EngineCore::compute_rope(Stage& stage, std::span<const std::int32_t> positions, float* cos,
                              float* sin) {
  const std::int64_t count = std::ssize(positions) * (shape.head_dim / 2);
  float* angles = staging.get(2 * count);
  rope_tables(model.rope_frequencies(), model.config().rope.attention_factor, positions, angles,
              angles + count);
  stage.memory->copy(std::array{copy_of(angles, cos, count), copy_of(angles + count, sin, count)});
}

RopeTable EngineCore::rope_table(Stage& stage, std::int64_t positions) {
  constexpr std::int64_t kMore = 1024;
  if (stage.table_cos.view.rows < positions) {
    const std::int64_t rows = (positions / kMore + 1) * kMore;
    stage.table_cos.make_room(rows, shape.head_dim / 2);
    stage.table_sin.make_room(rows, shape.head_dim / 2);
    std::vector<std::int32_t> all(static_cast<std::size_t>(rows));
    std::iota(all.begin(), all.end(), 0);
    compute_rope(stage, all, stage.table_cos.data(), stage.table_sin.data());
  }
  return {stage.table_cos.view, stage.table_sin.view};
}

void EngineCore::add_tools(LayerView& view, MatrixView<const float> queries) {
  view.backend = &stage_of(view.layer).backend;
  view.queries = queries;
  view.scale = scale;
  view.sliding_window = model.config().sliding_window[static_cast<std::size_t>(view.layer)];
  view.background = &background;
  view.scratch = &stage_of(view.layer).selection_scratch;
  view.scratch->clear();
}

}  // namespace turnbench
