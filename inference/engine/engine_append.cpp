// The part of the engine that appends keys and values to the cache: to a layer's sets or, where
// these are in host memory, to what the device holds of them.

#include <cstdint>
#include <span>
#include <vector>

#include "inference/engine/engine.h"

namespace turnbench {

void Engine::add_append_jobs(int layer, std::size_t pass, const Layout& layout,
                             const AppendPlan& plan, std::vector<AppendJob>& jobs) {
  Stage& stage = stage_of(layer);
  const auto raw = layout.pre_rope_keys ? stage.pre_rope_k.view : MatrixView<float>();
  const std::int64_t row = layout.first_row[pass], rows = layout.rows_of(pass);
  for (std::size_t s = 0; s < plan.sets.size(); ++s) {
    const std::int64_t kv_head =
        static_cast<std::int64_t>(s) * shape_.kv_heads / std::ssize(plan.sets);
    const auto own = [&](MatrixView<const float> all) {
      return all.rows_at(row, rows).columns_at(kv_head * shape_.head_dim, shape_.head_dim);
    };
    AppendJob& job = jobs.emplace_back();
    job.set = &plan.sets[s];
    job.first = plan.first[s];
    job.k = own(stage.k.view);
    job.v = own(stage.v.view);
    if (job.set->layout().pre_rope_keys) job.pre_rope_k = own(raw);
  }
}

void Engine::append_keys(int layer, std::span<const Pass> passes, const Layout& layout) {
  std::vector<AppendJob> jobs;
  std::vector<AppendPlan> plans;
  for (std::size_t i = 0; i < passes.size(); ++i) {
    Sequence& s = *passes[i].sequence;
    LayerKv& kv = s.at(layer).kv;
    const std::int64_t rows = std::ssize(passes[i].tokens);
    const auto positions = std::span(layout.positions).subspan(layout.first_row[i], rows);
    if (passes[i].kind == Pass::Kind::kPrefill) {
      kv.begin_prompt(ledger_of(s, layer));
      kv.extend(positions);
      plans.push_back(kv.prompt_rows(static_cast<int>(rows)));
    } else {
      const Layout::Ahead* ahead = layout.ahead_of(i, layer);
      plans.push_back(ahead != nullptr ? ahead->row : append_step(s, layer, positions));
    }
    add_append_jobs(layer, i, layout, plans.back(), jobs);
  }
  stage_of(layer).backend.append(jobs);
  for (std::size_t i = 0; i < passes.size(); ++i) {
    Sequence& s = *passes[i].sequence;
    s.at(layer).kv.written(plans[i], static_cast<int>(passes[i].tokens.size()),
                           ledger_of(s, layer));
  }
}

}  // namespace turnbench
