#include "inference/engine/engine.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <map>
#include <numeric>

#include "common/error.h"
#include "inference/model/rope.h"
#include "inference/policy/policy_checks.h"

namespace turnbench {
namespace {

/// Decode steps of at most this many rows are replayed: in larger ones, launching operations one by
/// one takes a small part of the time.
constexpr std::int64_t kMaxReplayedRows = 64;

}  // namespace

Engine::Stage::Stage(Backend& backend, int head_dim, const Options& options)
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

Engine::Engine(const Model& model, Backend& backend, Options options)
    : Engine(model, std::array{&backend}, options) {}

Engine::Engine(const Model& model, std::span<Backend* const> backends, Options options)
    : model_(model), options_(options), background_(options.background_threads) {
  if (backends.size() != model.stages().count()) {
    throw runtime_error("engine: found {} backends, expected one for each of the model's {} stages",
                        backends.size(), model.stages().count());
  }
  const ModelConfig& c = model.config();
  for (Backend* backend : backends) stages_.emplace_back(*backend, c.head_dim, options);
  shape_ = {c.layers, c.heads, c.kv_heads, c.head_dim};
  scale_ = static_cast<float>(1.0 / std::sqrt(static_cast<double>(c.head_dim)));
}

Sequence Engine::make_sequence(Policies policies, int tail_rows, bool pre_rope_keys) const {
  const bool raw = pre_rope_keys || policies.pre_rope_keys();
  std::vector<std::shared_ptr<const KvStorage>> storage;
  for (int l = 0; l < shape_.layers; ++l) {
    const Stage& stage = stages_[model_.stages().stage_of(l)];
    storage.push_back(raw ? stage.pre_rope_storage : stage.storage);
  }
  return Sequence(shape_, std::move(policies), storage, tail_rows);
}

std::vector<std::vector<float>> Engine::forward(std::span<const Pass> passes) {
  Layout layout = begin(passes);
  begin_steps(passes, layout);
  const Stages& stages = model_.stages();
  for (std::size_t s = 0; s < stages.count(); ++s) {
    make_room(stages_[s], layout);
    if (s == 0) {
      embed(passes, layout);
    } else {
      copy_to_next_stage(stages_[s - 1], stages_[s], layout);
    }
    const int first = stages.first_layer(s), last = stages.first_layer(s + 1);
    run_replayable(stages_[s], layout, first, [&] { qkv_rope(first, layout); });
    for (int l = first; l < last; ++l) {
      show_hidden(l, passes, layout);
      append_keys(l, passes, layout);
      attention_layer(l, passes, layout);
      run_replayable(stages_[s], layout, l + 1, [&] {
        output_and_ffn(l, layout);
        if (l + 1 < last) qkv_rope(l + 1, layout);
      });
    }
  }
  end(passes);
  return read_logits(passes, layout);
}

void Engine::run_replayable(Stage& stage, const Layout& layout, int part,
                            const std::function<void()>& work) const {
  if (!layout.decodes || layout.rows > kMaxReplayedRows) return work();
  stage.replay->run({layout.rows,
                     {stage.hidden.data(), stage.normed.data(), stage.wide.data(), stage.cos.data(),
                      stage.sin.data(), stage.q.data(), stage.k.data(),
                      layout.pre_rope_keys ? stage.pre_rope_k.data() : nullptr, stage.v.data(),
                      stage.attended.data()}},
                    part, work);
}

Engine::Layout Engine::begin(std::span<const Pass> passes, std::int64_t at_once) {
  const ModelConfig& c = model_.config();
  Layout layout;
  layout.hidden = c.hidden;
  layout.q_width = c.heads * c.head_dim;
  layout.kv_width = c.kv_heads * c.head_dim;
  layout.ffn = c.ffn;
  PassSize size{.sequences = std::ssize(passes)};
  for (const Pass& pass : passes) {
    layout.first_row.push_back(layout.rows);
    for (std::size_t t = 0; t < pass.tokens.size(); ++t) {
      const int token = pass.tokens[t];
      if (token < 0 || token >= c.vocab) {
        throw input_error("token {} of the input: found id {}, expected 0 to {}", t, token,
                          c.vocab - 1);
      }
      layout.positions.push_back(pass.sequence->next_position + static_cast<std::int32_t>(t));
    }
    check_policies(pass);
    layout.rows += std::ssize(pass.tokens);
    layout.pre_rope_keys |= pass.sequence->stores_pre_rope_keys();
    layout.decodes &= pass.kind == Pass::Kind::kDecode;
    const std::int64_t context = pass.sequence->next_position + std::ssize(pass.tokens);
    size.total_context += context;
    size.longest_context = std::max(size.longest_context, context);
  }
  layout.block = std::min(layout.rows, kLinearBlockRows);
  size.rows = layout.rows;
  size.pre_rope_keys = layout.pre_rope_keys;
  count_resources(passes);
  check_memory(size, passes, at_once);
  for (const Pass& pass : passes) {  // from here on nothing is refused
    if (pass.kind == Pass::Kind::kDecode) ++pass.sequence->generated;
    begin_ledgers(pass);
    pass.sequence->tokens.insert(pass.sequence->tokens.end(), pass.tokens.begin(),
                                 pass.tokens.end());
    layout.dialogues.push_back(pass.dialogue != nullptr ? *pass.dialogue : DialogueView{});
    layout.dialogues.back().tokens = pass.sequence->tokens;
  }
  return layout;
}

void Engine::check_policies(const Pass& pass) {
  if (!pass.evict) return;
  const bool decodes = pass.kind == Pass::Kind::kDecode;
  if (!decodes && !pass.prompt_end) return;
  check_eviction(pass.sequence->policies, decodes);
  for (const Sequence* fork : pass.forks) check_eviction(fork->policies, decodes);
}

void Engine::begin_steps(std::span<const Pass> passes, Layout& layout) {
  move_in_answers(passes);
  begin_retrievers(passes, layout);
  fetch_ahead(-1, passes, layout);
}

void Engine::make_room(Stage& stage, const Layout& layout) const {
  const std::int64_t rows = layout.rows, block = layout.block;
  stage.hidden.make_room(rows, layout.hidden);
  stage.cos.make_room(rows, shape_.head_dim / 2);
  stage.sin.make_room(rows, shape_.head_dim / 2);
  stage.normed.make_room(block, layout.hidden);
  stage.wide.make_room(
      block, std::max({layout.q_width + 2 * layout.kv_width, 3 * layout.ffn, layout.hidden}));
  stage.q.make_room(rows, layout.q_width);
  stage.k.make_room(rows, layout.kv_width);
  stage.v.make_room(rows, layout.kv_width);
  if (layout.pre_rope_keys) stage.pre_rope_k.make_room(rows, layout.kv_width);
  stage.attended.make_room(rows, layout.q_width);
  stage.lse.make_room(rows, shape_.heads);
}

void Engine::embed(std::span<const Pass> passes, const Layout& layout) {
  Stage& stage = stages_.front();
  std::vector<int> tokens;
  for (const Pass& pass : passes)
    tokens.insert(tokens.end(), pass.tokens.begin(), pass.tokens.end());
  stage.backend.embed(model_.embedding(), tokens, stage.hidden.data());
  compute_rope(stage, layout.positions, stage.cos.data(), stage.sin.data());
}

void Engine::copy_to_next_stage(Stage& from, Stage& to, const Layout& layout) const {
  const std::int64_t angles = layout.rows * (shape_.head_dim / 2);
  from.memory->synchronize();
  to.memory->copy(
      std::array{copy_of(from.hidden.data(), to.hidden.data(), layout.rows * layout.hidden),
                 copy_of(from.cos.data(), to.cos.data(), angles),
                 copy_of(from.sin.data(), to.sin.data(), angles)});
}

void Engine::qkv_rope(int layer, const Layout& layout) {
  Stage& stage = stage_of(layer);
  Backend& backend = stage.backend;
  const ModelConfig& c = model_.config();
  const LayerWeights& w = model_.layer(layer);
  const std::int64_t q_width = layout.q_width, kv_width = layout.kv_width;
  for (std::int64_t r = 0; r < layout.rows; r += layout.block) {
    const std::int64_t n = std::min(layout.block, layout.rows - r);
    const auto rows = [r, n](const Stage::Rows& all) { return all.view.rows_at(r, n); };
    const MatrixView<float> normed = stage.normed.view.rows_at(0, n);
    const MatrixView<float> qkv(stage.wide.data(), n, q_width + 2 * kv_width);
    const MatrixView<float> k = qkv.columns_at(q_width, kv_width);
    backend.rms_norm(rows(stage.hidden), w.attention_norm.data(), c.norm_eps, normed);
    backend.linear(normed, *w.qkv, w.qkv_bias.data(), qkv);
    if (c.qk_norm) {
      backend.rms_norm_heads(qkv.columns_at(0, q_width + kv_width), c.head_dim, c.heads,
                             w.q_norm.data(), w.k_norm.data(), c.norm_eps);
    }
    if (layout.pre_rope_keys) backend.copy_rows(k, rows(stage.pre_rope_k));
    // Queries and keys are adjacent columns, so one call rotates both.
    backend.apply_rope(qkv.columns_at(0, q_width + kv_width), rows(stage.cos), rows(stage.sin));
    backend.copy_rows(qkv.columns_at(0, q_width), rows(stage.q));
    backend.copy_rows(k, rows(stage.k));
    backend.copy_rows(qkv.columns_at(q_width + kv_width, kv_width), rows(stage.v));
  }
}

void Engine::output_and_ffn(int layer, const Layout& layout) {
  Stage& stage = stage_of(layer);
  Backend& backend = stage.backend;
  const LayerWeights& w = model_.layer(layer);
  const std::int64_t ffn = layout.ffn;
  for (std::int64_t r = 0; r < layout.rows; r += layout.block) {
    const std::int64_t n = std::min(layout.block, layout.rows - r);
    const MatrixView<float> x = stage.hidden.view.rows_at(r, n);
    const MatrixView<float> normed = stage.normed.view.rows_at(0, n);
    const MatrixView<float> gate_up(stage.wide.data(), n, 2 * ffn);
    const MatrixView<float> product(stage.wide.data() + layout.block * 2 * ffn, n, ffn);
    backend.linear(stage.attended.view.rows_at(r, n), *w.attention_out, w.attention_out_bias.data(),
                   normed);
    backend.add(x.data, normed.data, n * layout.hidden);
    backend.rms_norm(x, w.ffn_norm.data(), model_.config().norm_eps, normed);
    backend.linear(normed, *w.gate_up, w.gate_up_bias.data(), gate_up);
    backend.silu_multiply(gate_up, product);
    backend.linear(product, *w.down, w.down_bias.data(), normed);
    backend.add(x.data, normed.data, n * layout.hidden);
  }
}

void Engine::end(std::span<const Pass> passes) {
  for (const Pass& pass : passes) {
    Sequence& s = *pass.sequence;
    for (LayerState& layer : s.layers) layer.kv.settle_pinned();  // rows on their way to the host
    const bool shifted =
        s.policies.shifts_positions() && (pass.kind == Pass::Kind::kDecode || pass.prompt_end);
    s.next_position = shifted ? s.sets(0)[0].size()
                              : s.next_position + static_cast<std::int32_t>(pass.tokens.size());
    s.answered = pass.kind == Pass::Kind::kDecode;
    if (!pass.prompt_end) continue;
    s.prompt_tokens = static_cast<int>(s.tokens.size());
    s.generated = 0;
    for (Sequence* f : pass.forks) {
      if (s.policies.selects_in_prefill()) f->policies.selection = s.policies.selection->clone();
      give_retriever(s, *f);
      f->tokens = s.tokens;
      f->next_position = f->policies.shifts_positions() ? f->sets(0)[0].size() : s.next_position;
      f->prompt_tokens = s.prompt_tokens;
      f->generated = 0;
      f->answered = false;
      f->counters.prefill_pairs = s.counters.prefill_pairs;
      f->counters.prefill_pairs_dense = s.counters.prefill_pairs_dense;
    }
  }
}

/// Computes the logits of the rows that passes ask for, block by block.
std::vector<std::vector<float>> Engine::read_logits(std::span<const Pass> passes,
                                                    const Layout& layout) {
  Stage& stage = stages_.back();
  const ModelConfig& c = model_.config();
  const std::int64_t vocab = c.vocab;
  std::vector<std::vector<float>> out(passes.size());
  std::vector<std::int64_t> wanted;
  for (std::size_t i = 0; i < passes.size(); ++i) {
    const std::int64_t n = std::ssize(passes[i].tokens);
    for (std::int64_t r = passes[i].all_logits ? 0 : n - 1; r < n; ++r)
      wanted.push_back(layout.first_row[i] + r);
  }
  const MatrixView<float> hidden = stage.hidden.view, normed = stage.normed.view;
  std::size_t pass = 0;
  std::int64_t taken = 0;
  for (auto next = wanted.begin(); next != wanted.end();) {
    const std::int64_t n = std::min(layout.block, wanted.end() - next);
    for (std::int64_t i = 0; i < n; ++i) {
      stage.backend.rms_norm(hidden.rows_at(*next++, 1), model_.final_norm().data(), c.norm_eps,
                             normed.rows_at(i, 1));
    }
    stage.logits.make_room(n, vocab);
    stage.backend.linear(normed.rows_at(0, n), model_.lm_head(), nullptr, stage.logits.view);
    std::vector<Copy> copies;
    for (std::int64_t i = 0; i < n; ++i) {
      const std::int64_t all = passes[pass].all_logits ? std::ssize(passes[pass].tokens) : 1;
      if (taken == 0) out[pass].resize(all * vocab);
      copies.push_back(copy_of(stage.logits.view.row(i), out[pass].data() + taken * vocab, vocab));
      if (++taken == all) {
        ++pass;
        taken = 0;
      }
    }
    stage.memory->copy(copies);
    stage.memory->synchronize();
  }
  return out;
}

void Engine::compute_rope(Stage& stage, std::span<const std::int32_t> positions, float* cos,
                          float* sin) {
  const std::int64_t count = std::ssize(positions) * (shape_.head_dim / 2);
  float* angles = staging_.get(2 * count);
  rope_tables(model_.rope_frequencies(), model_.config().rope.attention_factor, positions, angles,
              angles + count);
  stage.memory->copy(std::array{copy_of(angles, cos, count), copy_of(angles + count, sin, count)});
}

std::size_t Engine::offload_bytes(std::span<const Pass> passes) const {
  std::size_t out = 0;
  for (const Pass& pass : passes) {
    const auto tokens =
        static_cast<std::int32_t>(pass.sequence->next_position + std::ssize(pass.tokens));
    if (pass.kind == Pass::Kind::kPrefill && pass.sequence->policies.placement.host) {
      const PageLayout& layout = pass.sequence->at(0).kv.pool()->layout();
      out += kv_bytes_of(layout, 1, shape_.kv_heads, tokens);  // of one layer at a time
    }
    if (!pass.prompt_end) continue;
    const auto needs = [&](const Sequence& s) {
      return answer_needs(s.policies, shape_, s.at(0).kv.pool()->layout(), shape_.kv_heads, tokens,
                          static_cast<int>(pass.sequence->tokens.size() + pass.tokens.size()));
    };
    if (pass.forks.empty()) {
      const AnswerNeeds own = needs(*pass.sequence);
      out += own.working_sets + own.index;
      continue;
    }
    std::map<bool, std::size_t> copies;  // with keys before RoPE and without
    for (const Sequence* fork : pass.forks) {
      const AnswerNeeds own = needs(*fork);
      const PageLayout& layout = fork->at(0).kv.pool()->layout();
      out += own.working_sets + own.index;
      if (!stages_.front().memory->is_host() || fork->policies.eviction) continue;
      std::size_t& most = copies[layout.pre_rope_keys];
      most = std::max(most, kv_bytes_of(layout, own.offloaded_layers, shape_.kv_heads, tokens));
    }
    for (const auto& [raw, bytes] : copies) out += bytes;
  }
  return out;
}

void Engine::check_memory(const PassSize& pass, std::span<const Pass> passes,
                          std::int64_t at_once) const {
  if (options_.memory_limit == 0) return;
  PassSize active = pass;  // rows whose activations there are together
  std::size_t waiting = 0;
  if (at_once > 0 && at_once < pass.rows) {
    active.rows = at_once;
    waiting = static_cast<std::size_t>((pass.rows - at_once) *
                                       (model_.config().hidden + shape_.head_dim)) *
              sizeof(float) * stages_.size();
  }
  const Stage& any = stages_.front();
  const std::size_t need =
      model_.weight_bytes() + kv_bytes() + (any.memory->is_host() ? host_kv_bytes() : 0) +
      kv_bytes_of((pass.pre_rope_keys ? any.pre_rope_storage : any.storage)->device->layout(),
                  shape_.layers, shape_.kv_heads, pass.rows) +
      workspace_bytes_of(model_.config(), active,
                         any.backend.scratch_bytes(model_.config(), active), stages_.size()) +
      std::accumulate(resource_bytes_.begin(), resource_bytes_.end(), std::size_t{0},
                      [](std::size_t sum, const auto& r) { return sum + r.second; }) +
      waiting + offload_bytes(passes);
  if (need > options_.memory_limit) {
    throw memory_error(
        "needs {} MiB for {} rows on {} cached tokens, more than the limit of {} MiB", need >> 20,
        pass.rows, pass.longest_context, options_.memory_limit >> 20);
  }
}

std::size_t Engine::kv_bytes() const {
  std::size_t total = 0;
  for (const Stage& s : stages_)
    total += s.storage->device->live_bytes() + s.pre_rope_storage->device->live_bytes();
  for (const auto& [head_dim, pool] : retriever_pools_) total += pool->live_bytes();
  return total;
}

std::size_t Engine::host_kv_bytes() const {
  std::size_t total = 0;
  for (const Stage& s : stages_)
    total += s.storage->host->live_bytes() + s.pre_rope_storage->host->live_bytes();
  return total;
}

std::size_t Engine::peak_kv_bytes() const {
  std::size_t total = 0;
  for (const Stage& s : stages_)
    total += s.storage->device->peak_bytes() + s.pre_rope_storage->device->peak_bytes();
  for (const auto& [head_dim, pool] : retriever_pools_) total += pool->peak_bytes();
  return total;
}

void Engine::reset_peak() {
  for (Stage& s : stages_) {
    s.storage->device->reset_peak();
    s.pre_rope_storage->device->reset_peak();
  }
  for (const auto& [head_dim, pool] : retriever_pools_) pool->reset_peak();
}

std::size_t Engine::workspace_bytes() const {
  std::size_t total = staging_.bytes();
  for (const Stage& s : stages_) {
    total += s.backend.workspace_bytes();
    Stage::for_each_scratch(s, [&](const Scratch& array) { total += array.bytes(); });
  }
  return total;
}

void Engine::release_workspace() {
  staging_.release();
  for (Stage& s : stages_) {
    s.memory->synchronize();
    s.backend.release_workspace();
    Stage::for_each_scratch(s, [](auto& array) { array.release(); });
  }
}

}  // namespace turnbench
