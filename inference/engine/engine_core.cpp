#include "inference/engine/engine_core.h"

#include <array>
#include <cmath>

#include "common/error.h"
#include "inference/model/rope.h"

namespace turnbench {

Stage::Stage(Backend& backend, int head_dim, const EngineOptions& options)
    : backend(backend),
      memory(backend.memory()),
      replay(backend.make_replay()),
      link(make_link(memory, options.link_gbps)),
      within(std::make_shared<OrderedLink>(memory)),
      plain_layout{head_dim, options.kv_dtype},
      gathered_pool(std::make_shared<KvPool>(plain_layout, memory)),
      kv_limit_(options.kv_limit),
      storages_(std::make_unique<Storages>()) {
  storage_of(false, {});
}

const std::shared_ptr<const KvStorage>& Stage::storage_of(bool pre_rope_keys,
                                                          EncodedBytes encoded) const {
  auto& [plain, pre_rope] = (*storages_)[encoded];
  if (plain == nullptr) {
    const auto make_pool = [&](bool raw, const std::shared_ptr<Memory>& of) {
      return std::make_shared<KvPool>(
          PageLayout{plain_layout.head_dim, plain_layout.dtype, raw, encoded}, of);
    };
    const auto device = make_pool(false, memory), pre_rope_device = make_pool(true, memory),
               host = make_pool(false, host_memory()),
               pre_rope_host = make_pool(true, host_memory());
    device->set_limit(kv_limit_);
    pre_rope_device->set_limit(kv_limit_);
    plain = std::make_shared<KvStorage>(KvStorage{device, host, pre_rope_host, link, within});
    pre_rope =
        std::make_shared<KvStorage>(KvStorage{pre_rope_device, pre_rope_host, host, link, within});
  }
  return pre_rope_keys ? pre_rope : plain;
}

const std::shared_ptr<KvPool>& Stage::decoded_pool(const PageLayout& encoded) {
  std::shared_ptr<KvPool>& pool = decoded_pools[encoded.pre_rope_keys];
  if (pool == nullptr) {
    PageLayout layout = plain_layout;
    layout.pre_rope_keys = encoded.pre_rope_keys;
    pool = std::make_shared<KvPool>(layout, memory);
  }
  return pool;
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
  shape = {c.layers,
           c.heads,
           c.kv_heads,
           c.head_dim,
           {model.rope_frequencies(), c.rope.attention_factor}};
  scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(c.head_dim)));
  math = with_cache(model.math(), options.kv_dtype);
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
    compute_rope(stage, all_slots(static_cast<int>(rows)), stage.table_cos.data(),
                 stage.table_sin.data());
  }
  return {stage.table_cos.view, stage.table_sin.view};
}

void EngineCore::add_tools(LayerView& view, MatrixView<const float> queries) {
  view.backend = &stage_of(view.layer).backend;
  view.queries = queries;
  view.scale = scale;
  view.sliding_window = model.config().sliding_window[view.layer];
  view.background = &background;
  view.scratch = &stage_of(view.layer).selection_scratch;
  view.attention_out = model.layer(view.layer).attention_out.get();
}

}  // namespace turnbench
