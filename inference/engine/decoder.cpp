#include "inference/engine/decoder.h"

#include <algorithm>
#include <array>
#include <utility>

namespace turnbench {

namespace {

/// Decode steps of at most this many rows are replayed: in larger ones, the launch overhead is a
/// small part of the time.
constexpr std::int64_t kMaxReplayedRows = 64;

std::vector<float> on_host(Memory& memory, MatrixView<const float> x) {
  std::vector<float> out(static_cast<std::size_t>(x.rows * x.columns));
  memory.copy_floats(x.data, out.data(), out.size());
  return out;
}

}  // namespace

void Decoder::linear(Stage& stage, MatrixView<const float> x, const WeightMatrix& w,
                     const float* bias, MatrixView<float> y) {
  stage.backend.linear(x, w, bias, y);
  core_.operations.linear += 2.0 * static_cast<double>(x.rows) * static_cast<double>(w.in()) *
                             static_cast<double>(w.out());
}

void Decoder::run_replayable(Stage& stage, const ForwardBatch& batch, int part,
                             const std::function<void()>& work) const {
  if (!batch.decodes || batch.rows > kMaxReplayedRows || core_.profile != nullptr) return work();
  stage.replay->run({batch.rows,
                     {stage.hidden.data(), stage.normed.data(), stage.wide.data(), stage.cos.data(),
                      stage.sin.data(), stage.q.data(), stage.k.data(),
                      batch.pre_rope_keys ? stage.pre_rope_k.data() : nullptr, stage.v.data(),
                      stage.attended.data()}},
                    part, work);
}

void Decoder::make_room(Stage& stage, const ForwardBatch& batch) const {
  const std::int64_t rows = batch.rows, block = batch.block;
  stage.hidden.make_room(rows, batch.hidden);
  stage.cos.make_room(rows, core_.shape.head_dim / 2);
  stage.sin.make_room(rows, core_.shape.head_dim / 2);
  stage.normed.make_room(block, batch.hidden);
  stage.wide.make_room(block,
                       std::max({batch.q_width + 2 * batch.kv_width, 3 * batch.ffn, batch.hidden}));
  stage.q.make_room(rows, batch.q_width);
  stage.k.make_room(rows, batch.kv_width);
  stage.v.make_room(rows, batch.kv_width);
  if (batch.pre_rope_keys) stage.pre_rope_k.make_room(rows, batch.kv_width);
  stage.attended.make_room(rows, batch.q_width);
  stage.lse.make_room(rows, core_.shape.heads);
}

void Decoder::embed(std::span<const Pass> passes, const ForwardBatch& batch) {
  const auto zone = core_.zone(Phase::kQkv, 0);
  Stage& stage = core_.stages.front();
  std::vector<int> tokens;
  for (const Pass& pass : passes)
    tokens.insert(tokens.end(), pass.tokens.begin(), pass.tokens.end());
  stage.backend.embed(core_.model.embedding(), tokens, stage.hidden.data());
  core_.compute_rope(stage, batch.positions, stage.cos.data(), stage.sin.data());
}

void Decoder::copy_to_next_stage(Stage& from, Stage& to, const ForwardBatch& batch) const {
  const std::int64_t angles = batch.rows * (core_.shape.head_dim / 2);
  from.memory->synchronize();
  to.memory->copy(
      std::array{copy_of(from.hidden.data(), to.hidden.data(), batch.rows * batch.hidden),
                 copy_of(from.cos.data(), to.cos.data(), angles),
                 copy_of(from.sin.data(), to.sin.data(), angles)});
}

void Decoder::qkv_rope(int layer, const ForwardBatch& batch) {
  const auto zone = core_.zone(Phase::kQkv, layer);
  Stage& stage = core_.stage_of(layer);
  Backend& backend = stage.backend;
  const ModelConfig& c = core_.model.config();
  const LayerWeights& w = core_.model.layer(layer);
  const std::int64_t q_width = batch.q_width, kv_width = batch.kv_width;
  for (std::int64_t r = 0; r < batch.rows; r += batch.block) {
    const std::int64_t n = std::min(batch.block, batch.rows - r);
    const auto rows = [r, n](const Stage::Rows& all) { return all.view.rows_at(r, n); };
    const MatrixView<float> normed = stage.normed.view.rows_at(0, n);
    const MatrixView<float> qkv(stage.wide.data(), n, q_width + 2 * kv_width);
    const MatrixView<float> k = qkv.columns_at(q_width, kv_width);
    backend.rms_norm(rows(stage.hidden), w.attention_norm.data(), c.norm_eps, normed);
    linear(stage, normed, *w.qkv, w.qkv_bias.data(), qkv);
    if (c.qk_norm) {
      backend.rms_norm_heads(qkv.columns_at(0, q_width + kv_width), c.head_dim, c.heads,
                             w.q_norm.data(), w.k_norm.data(), c.norm_eps);
    }
    if (batch.pre_rope_keys) backend.copy_rows(k, rows(stage.pre_rope_k));
    // Queries and keys are adjacent columns, so one call rotates both.
    backend.apply_rope(qkv.columns_at(0, q_width + kv_width), rows(stage.cos), rows(stage.sin));
    if (core_.math == Math::kBF16) backend.round_to_bf16(qkv.columns_at(0, q_width));
    backend.copy_rows(qkv.columns_at(0, q_width), rows(stage.q));
    backend.copy_rows(k, rows(stage.k));
    backend.copy_rows(qkv.columns_at(q_width + kv_width, kv_width), rows(stage.v));
  }
}

void Decoder::output_and_ffn(int layer, const ForwardBatch& batch) {
  const auto zone = core_.zone(Phase::kFfn, layer);
  Stage& stage = core_.stage_of(layer);
  Backend& backend = stage.backend;
  const LayerWeights& w = core_.model.layer(layer);
  const std::int64_t ffn = batch.ffn;
  const bool is_last = layer + 1 == core_.shape.layers;
  if (is_last) gather_logit_rows(stage, batch);
  const std::int64_t rows = is_last ? std::ssize(batch.logit_rows) : batch.rows;
  for (std::int64_t r = 0; r < rows; r += batch.block) {
    const std::int64_t n = std::min(batch.block, rows - r);
    const MatrixView<float> x = stage.hidden.view.rows_at(r, n);
    const MatrixView<float> normed = stage.normed.view.rows_at(0, n);
    const MatrixView<float> gate_up(stage.wide.data(), n, 2 * ffn);
    const MatrixView<float> product(stage.wide.data() + batch.block * 2 * ffn, n, ffn);
    const bool shows = batch.residuals != nullptr;
    const std::vector<float> before = shows ? on_host(*stage.memory, x) : std::vector<float>();
    linear(stage, stage.attended.view.rows_at(r, n), *w.attention_out, w.attention_out_bias.data(),
           normed);
    backend.add(x.data, normed.data, n * batch.hidden);
    if (shows) {
      const std::vector<float> after = on_host(*stage.memory, x);
      batch.residuals->residuals(layer, {before.data(), n, batch.hidden},
                                 {after.data(), n, batch.hidden});
    }
    backend.rms_norm(x, w.ffn_norm.data(), core_.model.config().norm_eps, normed);
    linear(stage, normed, *w.gate_up, w.gate_up_bias.data(), gate_up);
    backend.silu_multiply(gate_up, product);
    linear(stage, product, *w.down, w.down_bias.data(), normed);
    backend.add(x.data, normed.data, n * batch.hidden);
  }
}

void Decoder::gather_logit_rows(Stage& stage, const ForwardBatch& batch) {
  for (std::int64_t to = 0; to < std::ssize(batch.logit_rows); ++to) {
    const std::int64_t from = batch.logit_rows[to];
    if (from == to) continue;
    for (const MatrixView<float>& all : {stage.hidden.view, stage.attended.view})
      stage.backend.copy_rows(all.rows_at(from, 1), all.rows_at(to, 1));
  }
}

/// Computes the logits of the rows that the passes request, block by block.
std::vector<std::vector<float>> Decoder::read_logits(std::span<const Pass> passes,
                                                     const ForwardBatch& batch) {
  const auto zone = core_.zone(Phase::kLogits, core_.shape.layers - 1);
  Stage& stage = core_.stages.back();
  const ModelConfig& c = core_.model.config();
  const std::int64_t vocab = c.vocab;
  std::vector<std::vector<float>> out(passes.size());
  const std::int64_t rows = std::ssize(batch.logit_rows);
  const MatrixView<float> hidden = stage.hidden.view, normed = stage.normed.view;
  std::size_t pass = 0;
  std::int64_t taken = 0;
  for (std::int64_t r = 0; r < rows; r += batch.block) {
    const std::int64_t n = std::min(batch.block, rows - r);
    stage.backend.rms_norm(hidden.rows_at(r, n), core_.model.final_norm().data(), c.norm_eps,
                           normed.rows_at(0, n));
    stage.logits.make_room(n, vocab);
    linear(stage, normed.rows_at(0, n), core_.model.lm_head(), nullptr, stage.logits.view);
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

}  // namespace turnbench
