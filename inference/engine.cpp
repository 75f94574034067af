#include "inference/engine.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "common/error.h"

namespace turnbench {
namespace {

/// Rows of a decode step up to which launching its operations one by one takes a good part of their
/// time.
constexpr std::size_t kRepeatedRows = 64;

}  // namespace

void rope_tables(std::span<const float> frequencies, double attention_factor,
                 std::span<const std::int32_t> positions, float* cos, float* sin) {
  for (std::int32_t position : positions) {
    for (float f : frequencies) {
      // The angle is a float product, as in the reference implementations.
      const double angle = static_cast<float>(position) * f;
      *cos++ = static_cast<float>(std::cos(angle) * attention_factor);
      *sin++ = static_cast<float>(std::sin(angle) * attention_factor);
    }
  }
}

Engine::Stage::Stage(Backend& backend, int head_dim, DType kv_dtype)
    : backend(backend),
      memory(backend.memory()),
      replay(backend.make_replay()),
      pool(std::make_shared<KvPool>(PageLayout{head_dim, kv_dtype, false}, memory)),
      pre_rope_pool(std::make_shared<KvPool>(PageLayout{head_dim, kv_dtype, true}, memory)) {}

std::vector<const Scratch*> Engine::Stage::all_scratch() const {
  return {&hidden,   &normed, &wide, &q,   &k,      &pre_rope_k,  &v,
          &attended, &lse,    &cos,  &sin, &logits, &rotated_keys};
}

Engine::Engine(const Model& model, Backend& backend, Options options)
    : Engine(model, std::array{&backend}, options) {}

Engine::Engine(const Model& model, std::span<Backend* const> backends, Options options)
    : model_(model), options_(options) {
  if (backends.size() != model.stages().count()) {
    throw runtime_error("engine: found {} backends, expected one for each of the model's {} stages",
                        backends.size(), model.stages().count());
  }
  const ModelConfig& c = model.config();
  for (Backend* backend : backends) stages_.emplace_back(*backend, c.head_dim, options.kv_dtype);
  shape_ = {c.layers, c.heads, c.kv_heads, c.head_dim};
  scale_ = static_cast<float>(1.0 / std::sqrt(static_cast<double>(c.head_dim)));
}

Sequence Engine::make_sequence(Policies policies, int tail_rows, bool pre_rope_keys) const {
  const bool raw = pre_rope_keys || policies.pre_rope_keys();
  std::vector<std::shared_ptr<KvPool>> pools;
  for (int l = 0; l < shape_.layers; ++l) {
    const Stage& stage = stages_[model_.stages().stage_of(l)];
    pools.push_back(raw ? stage.pre_rope_pool : stage.pool);
  }
  return Sequence(shape_, std::move(policies), std::move(pools), tail_rows);
}

std::vector<std::vector<float>> Engine::prefill(std::span<const Pass> passes) {
  std::vector<std::vector<float>> logits(passes.size());
  std::vector<std::size_t> done(passes.size(), 0);
  for (;;) {
    std::vector<Pass> chunk;
    std::vector<std::size_t> of;
    std::size_t rows = 0;
    for (std::size_t i = 0; i < passes.size(); ++i) {
      const std::size_t left = passes[i].tokens.size() - done[i];
      if (left == 0) continue;
      const bool whole = passes[i].sequence->policies.prefill != nullptr;
      const std::size_t take =
          whole ? left
                : std::min<std::size_t>(left, static_cast<std::size_t>(options_.prefill_chunk));
      if (!chunk.empty() && rows + take > static_cast<std::size_t>(options_.max_rows)) continue;
      Pass part = passes[i];
      part.tokens = part.tokens.subspan(done[i], take);
      part.prompt_end = passes[i].prompt_end && take == left;
      chunk.push_back(std::move(part));
      of.push_back(i);
      rows += take;
      done[i] += take;
    }
    if (chunk.empty()) return logits;
    auto part = forward(chunk);
    for (std::size_t i = 0; i < of.size(); ++i) {
      auto& out = logits[of[i]];
      if (chunk[i].all_logits) {
        out.insert(out.end(), part[i].begin(), part[i].end());
      } else {
        out = std::move(part[i]);
      }
    }
  }
}

std::vector<std::vector<float>> Engine::forward(std::span<const Pass> passes) {
  const Layout layout = begin(passes);
  const Stages& stages = model_.stages();
  for (std::size_t s = 0; s < stages.count(); ++s) {
    make_room(stages_[s], layout);
    if (s == 0) {
      embed(passes, layout);
    } else {
      hand_over(stages_[s - 1], stages_[s], layout);
    }
    const int first = stages.first_layer(s), last = stages.first_layer(s + 1);
    repeat(stages_[s], layout, first, [&] { qkv_rope(first, layout); });
    for (int l = first; l < last; ++l) {
      append_keys(l, passes, layout);
      attention_layer(l, passes, layout);
      repeat(stages_[s], layout, l + 1, [&] {
        output_and_ffn(l, layout);
        if (l + 1 < last) qkv_rope(l + 1, layout);
      });
    }
  }
  end(passes);
  return read_logits(passes, layout);
}

void Engine::repeat(Stage& stage, const Layout& layout, int part,
                    const std::function<void()>& work) const {
  if (!layout.decodes || layout.rows > kRepeatedRows) return work();
  stage.replay->run({layout.rows,
                     {stage.hidden.data(), stage.normed.data(), stage.wide.data(), stage.cos.data(),
                      stage.sin.data(), stage.q.data(), stage.k.data(),
                      layout.pre_rope_keys ? stage.pre_rope_k.data() : nullptr, stage.v.data(),
                      stage.attended.data()}},
                    part, work);
}

Engine::Layout Engine::begin(std::span<const Pass> passes) {
  const ModelConfig& c = model_.config();
  Layout layout;
  layout.hidden = static_cast<std::size_t>(c.hidden);
  layout.q_width = static_cast<std::size_t>(c.heads * c.head_dim);
  layout.kv_width = static_cast<std::size_t>(c.kv_heads * c.head_dim);
  layout.ffn = static_cast<std::size_t>(c.ffn);
  PassSize size{.sequences = passes.size()};
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
    layout.rows += pass.tokens.size();
    layout.pre_rope_keys |= pass.sequence->cache.pre_rope_keys();
    layout.decodes &= pass.kind == Pass::Kind::kDecode;
    const std::size_t context =
        static_cast<std::size_t>(pass.sequence->next_position) + pass.tokens.size();
    size.context += context;
    size.longest = std::max(size.longest, context);
  }
  layout.block = std::min(layout.rows, kActivationRows);
  size.rows = layout.rows;
  size.pre_rope_keys = layout.pre_rope_keys;
  check_memory(size);
  for (const Pass& pass : passes) {  // from here on nothing is refused
    if (pass.kind == Pass::Kind::kDecode) ++pass.sequence->generated;
    pass.sequence->tokens.insert(pass.sequence->tokens.end(), pass.tokens.begin(),
                                 pass.tokens.end());
    layout.dialogues.push_back(pass.dialogue != nullptr ? *pass.dialogue : DialogueView{});
    layout.dialogues.back().tokens = pass.sequence->tokens;
  }
  return layout;
}

void Engine::make_room(Stage& stage, const Layout& layout) const {
  const std::size_t rows = layout.rows,
                    angles = rows * static_cast<std::size_t>(shape_.head_dim / 2);
  stage.hidden.get(rows * layout.hidden);
  stage.cos.get(angles);
  stage.sin.get(angles);
  stage.normed.get(layout.block * layout.hidden);
  stage.wide.get(layout.block *
                 std::max({layout.q_width + 2 * layout.kv_width, 3 * layout.ffn, layout.hidden}));
  stage.q.get(rows * layout.q_width);
  stage.k.get(rows * layout.kv_width);
  stage.v.get(rows * layout.kv_width);
  if (layout.pre_rope_keys) stage.pre_rope_k.get(rows * layout.kv_width);
  stage.attended.get(rows * layout.q_width);
  stage.lse.get(rows * static_cast<std::size_t>(shape_.heads));
}

void Engine::embed(std::span<const Pass> passes, const Layout& layout) {
  Stage& stage = stages_.front();
  std::vector<int> tokens;
  for (const Pass& pass : passes)
    tokens.insert(tokens.end(), pass.tokens.begin(), pass.tokens.end());
  stage.backend.embed(model_.embedding(), tokens, stage.hidden.data());
  compute_rope(stage, layout.positions, stage.cos.data(), stage.sin.data());
}

void Engine::hand_over(Stage& from, Stage& to, const Layout& layout) const {
  const std::size_t angles = layout.rows * static_cast<std::size_t>(shape_.head_dim / 2);
  from.memory->finish();
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
  const auto head_dim = static_cast<std::size_t>(c.head_dim);
  const std::size_t hidden = layout.hidden, q_width = layout.q_width, kv_width = layout.kv_width,
                    qkv_width = q_width + 2 * kv_width;
  float *normed = stage.normed.data(), *wide = stage.wide.data();
  for (std::size_t r = 0; r < layout.rows; r += layout.block) {
    const std::size_t n = std::min(layout.block, layout.rows - r);
    backend.rms_norm(stage.hidden.data() + r * hidden, hidden, n, hidden, w.attention_norm.data(),
                     c.norm_eps, normed, hidden);
    backend.linear(normed, hidden, n, *w.qkv, w.qkv_bias.data(), wide, qkv_width);
    if (c.qk_norm) {
      for (int h = 0; h < c.heads + c.kv_heads; ++h) {  // queries first, then keys
        float* head = wide + static_cast<std::size_t>(h) * head_dim;
        backend.rms_norm(head, qkv_width, n, head_dim, (h < c.heads ? w.q_norm : w.k_norm).data(),
                         c.norm_eps, head, qkv_width);
      }
    }
    if (layout.pre_rope_keys) {
      backend.copy_rows(wide + q_width, qkv_width, n, kv_width,
                        stage.pre_rope_k.data() + r * kv_width, kv_width);
    }
    // Queries and keys stand side by side, so one call turns both.
    backend.rotate(wide, qkv_width, n, c.heads + c.kv_heads, c.head_dim,
                   stage.cos.data() + r * head_dim / 2, stage.sin.data() + r * head_dim / 2);
    backend.copy_rows(wide, qkv_width, n, q_width, stage.q.data() + r * q_width, q_width);
    backend.copy_rows(wide + q_width, qkv_width, n, kv_width, stage.k.data() + r * kv_width,
                      kv_width);
    backend.copy_rows(wide + q_width + kv_width, qkv_width, n, kv_width,
                      stage.v.data() + r * kv_width, kv_width);
  }
}

void Engine::output_and_ffn(int layer, const Layout& layout) {
  Stage& stage = stage_of(layer);
  Backend& backend = stage.backend;
  const LayerWeights& w = model_.layer(layer);
  const std::size_t hidden = layout.hidden, ffn = layout.ffn;
  float *normed = stage.normed.data(), *wide = stage.wide.data(),
        *product = wide + layout.block * 2 * ffn;
  for (std::size_t r = 0; r < layout.rows; r += layout.block) {
    const std::size_t n = std::min(layout.block, layout.rows - r);
    float* x = stage.hidden.data() + r * hidden;
    backend.linear(stage.attended.data() + r * layout.q_width, layout.q_width, n, *w.out,
                   w.out_bias.data(), normed, hidden);
    backend.add(x, normed, n * hidden);
    backend.rms_norm(x, hidden, n, hidden, w.ffn_norm.data(), model_.config().norm_eps, normed,
                     hidden);
    backend.linear(normed, hidden, n, *w.gate_up, w.gate_up_bias.data(), wide, 2 * ffn);
    backend.silu_multiply(wide, n, ffn, product);
    backend.linear(product, ffn, n, *w.down, w.down_bias.data(), normed, hidden);
    backend.add(x, normed, n * hidden);
  }
}

void Engine::end(std::span<const Pass> passes) {
  for (const Pass& pass : passes) {
    Sequence& s = *pass.sequence;
    const bool shifted =
        s.policies.pre_rope_keys() && (pass.kind == Pass::Kind::kDecode || pass.prompt_end);
    s.next_position = shifted ? s.cache.layer(0)[0].size()
                              : s.next_position + static_cast<std::int32_t>(pass.tokens.size());
    if (!pass.prompt_end) continue;
    s.prompt_tokens = static_cast<int>(s.tokens.size());
    s.generated = 0;
    for (Sequence* f : pass.forks) {
      f->tokens = s.tokens;
      f->next_position =
          f->policies.pre_rope_keys() ? f->cache.layer(0)[0].size() : s.next_position;
      f->prompt_tokens = s.prompt_tokens;
      f->generated = 0;
      f->counters.prefill_pairs = s.counters.prefill_pairs;
      f->counters.prefill_pairs_dense = s.counters.prefill_pairs_dense;
    }
  }
}

/// All wanted rows as one product.
std::vector<std::vector<float>> Engine::read_logits(std::span<const Pass> passes,
                                                    const Layout& layout) {
  Stage& stage = stages_.back();
  const ModelConfig& c = model_.config();
  const auto vocab = static_cast<std::size_t>(c.vocab);
  std::vector<std::vector<float>> out(passes.size());
  std::vector<std::size_t> wanted;
  for (std::size_t i = 0; i < passes.size(); ++i) {
    const std::size_t n = passes[i].tokens.size();
    for (std::size_t r = passes[i].all_logits ? 0 : n - 1; r < n; ++r)
      wanted.push_back(layout.first_row[i] + r);
  }
  float* normed = stage.normed.data();
  for (std::size_t first = 0, pass = 0, taken = 0; first < wanted.size(); first += layout.block) {
    const std::size_t n = std::min(layout.block, wanted.size() - first);
    for (std::size_t i = 0; i < n; ++i) {
      stage.backend.rms_norm(stage.hidden.data() + wanted[first + i] * layout.hidden, layout.hidden,
                             1, layout.hidden, model_.norm().data(), c.norm_eps,
                             normed + i * layout.hidden, layout.hidden);
    }
    float* logits = stage.logits.get(n * vocab);
    stage.backend.linear(normed, layout.hidden, n, model_.head(), nullptr, logits, vocab);
    std::vector<Copy> copies;
    for (std::size_t i = 0; i < n; ++i) {
      auto& to = out[pass];
      if (taken == 0) to.resize((passes[pass].all_logits ? passes[pass].tokens.size() : 1) * vocab);
      copies.push_back(copy_of(logits + i * vocab, to.data() + taken * vocab, vocab));
      if (++taken == (passes[pass].all_logits ? passes[pass].tokens.size() : 1)) {
        ++pass;
        taken = 0;
      }
    }
    stage.memory->copy(copies);
    stage.memory->finish();
  }
  return out;
}

void Engine::compute_rope(Stage& stage, std::span<const std::int32_t> positions, float* cos,
                          float* sin) {
  const std::size_t count = positions.size() * static_cast<std::size_t>(shape_.head_dim / 2);
  float* angles = staging_.get(2 * count);
  rope_tables(model_.frequencies(), model_.config().rope.attention_factor, positions, angles,
              angles + count);
  stage.memory->copy(std::array{copy_of(angles, cos, count), copy_of(angles + count, sin, count)});
}

void Engine::check_memory(const PassSize& pass) const {
  if (options_.memory_limit == 0) return;
  const Stage& any = stages_.front();
  const std::size_t need =
      model_.weight_bytes() + kv_bytes() +
      kv_bytes_of((pass.pre_rope_keys ? any.pre_rope_pool : any.pool)->layout(), shape_.layers,
                  shape_.kv_heads, pass.rows) +
      workspace_bytes_of(model_.config(), pass, any.backend.scratch_bytes(model_.config(), pass),
                         stages_.size());
  if (need > options_.memory_limit) {
    throw memory_error(
        "needs {} MiB for {} rows on {} cached tokens, more than the limit of {} MiB", need >> 20,
        pass.rows, pass.longest, options_.memory_limit >> 20);
  }
}

std::size_t Engine::kv_bytes() const {
  std::size_t total = 0;
  for (const Stage& s : stages_) total += s.pool->live_bytes() + s.pre_rope_pool->live_bytes();
  return total;
}

std::size_t Engine::peak_kv_bytes() const {
  std::size_t total = 0;
  for (const Stage& s : stages_) total += s.pool->peak_bytes() + s.pre_rope_pool->peak_bytes();
  return total;
}

void Engine::reset_peak() {
  for (Stage& s : stages_) {
    s.pool->reset_peak();
    s.pre_rope_pool->reset_peak();
  }
}

std::size_t Engine::workspace_bytes() const {
  std::size_t total = staging_.bytes();
  for (const Stage& s : stages_) {
    total += s.backend.workspace_bytes();
    for (const Scratch* scratch : s.all_scratch()) total += scratch->bytes();
  }
  return total;
}

}  // namespace turnbench
