#include "harness/experiment/batch_memory.h"

#include <algorithm>

#include "common/thread_pool.h"
#include "inference/engine/engine.h"

namespace turnbench {
namespace {

BatchBytes::Pool pool(const PageLayout& layout, bool in_host_memory) {
  return {in_host_memory, layout.pre_rope_keys, layout.encoded};
}

}  // namespace

void BatchMemory::add_pages_of_layers(int layers, std::int64_t tokens, int sets,
                                      const PageLayout& layout) {
  held_.pages[pool(layout, false)] += kv_bytes_of(layout, layers, sets, tokens);
}

void BatchMemory::add_elements(const Policies& policies, std::int64_t tokens, int sets,
                               std::int64_t rows) {
  if (policies.group_codec() == nullptr) return;
  add_pages(std::max(rows, newest_tokens(policies, tokens)), sets,
            prefix_layout(policies, policies.pre_rope_keys()));
}

void BatchMemory::add_host_pages(int layers, std::int64_t tokens, int sets,
                                 const PageLayout& layout) {
  if (!devices_.front().cuda)
    held_.pages[pool(layout, true)] += kv_bytes_of(layout, layers, sets, tokens);
}

void BatchMemory::add_working_sets(std::size_t bytes, const PageLayout& layout) {
  held_.pages[pool(layout, false)] += bytes;
}

void BatchMemory::add_resource(const Policies& policies) {
  const auto* retrieval = capability<StepRetrieval>(policies.selection.get());
  if (retrieval == nullptr) return;
  const MethodResource resource = retrieval->resource(config_, weights_);
  if (!resource.key.empty() && resources_.insert(resource.key).second) add_bytes(resource.bytes);
}

void BatchMemory::add_sequence(int window) {
  add_query_rows(window);
  held_.rest += sizeof(float) * static_cast<std::size_t>(config_.vocab);
  ++sequences_;
}

void BatchMemory::add_query_rows(int window) {
  const ModelConfig& c = config_;
  held_.rest += sizeof(float) * static_cast<std::size_t>(2 * c.layers * window * c.heads) *
                static_cast<std::size_t>(c.head_dim);
}

void BatchMemory::add_columns(std::size_t rules, std::int64_t tokens) {
  held_.rest += sizeof(float) * rules * static_cast<std::size_t>(tokens) *
                static_cast<std::size_t>(config_.heads * config_.layers);
}

void BatchMemory::add_prefill(PrefillCall call, std::int64_t rows, std::int64_t context, bool whole,
                              bool pre_rope_keys) {
  const Engine::Options engine;
  PassSize& pass = passes_[static_cast<std::size_t>(call)];
  const std::int64_t taken = whole ? rows : std::min<std::int64_t>(rows, engine.prefill_chunk);
  const std::int64_t most = std::max<std::int64_t>(taken, engine.max_rows);
  pass.rows = std::min(std::max(pass.rows, most), pass.rows + taken);
  pass.total_context += context;
  pass.longest_context = std::max(pass.longest_context, context);
  pass.pre_rope_keys |= pre_rope_keys;
}

std::size_t BatchMemory::decoded_bytes(const Policies& policies, int sets, std::int64_t tokens,
                                       bool prompt_end) const {
  const ModelShape shape{config_.layers, config_.heads, config_.kv_heads, config_.head_dim};
  return decoded_bytes_of(policies, shape, layout(policies), sets, tokens, prompt_end);
}

BatchBytes BatchMemory::bytes() const {
  std::size_t workspace = 0;
  for (PassSize pass : passes_) {
    pass.sequences = sequences_;  // sequences that decode together
    const std::size_t scratch =
        scratch_bytes_of(devices_.front(), available_processors(), config_, pass);
    workspace = std::max(workspace, workspace_bytes_of(config_, pass, scratch, devices_.size()));
  }
  BatchBytes out = held_;
  out.rest += std::max(decoded_in_step_, decoded_in_prompt_) + workspace;
  return out;
}

}  // namespace turnbench
