#include "inference/engine.h"

#include <algorithm>
#include <cmath>

#include "common/error.h"

namespace turnbench {

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

Engine::Engine(const Model& model, Backend& backend, Options options)
    : model_(model), backend_(backend), options_(options), memory_(*backend.memory()) {
  for (Scratch* s : {&hidden_, &normed_, &wide_, &q_, &k_, &raw_k_, &v_, &attended_, &lse_, &cos_,
                     &sin_, &logits_, &turned_}) {
    *s = Scratch(backend.memory());
  }
  const ModelConfig& c = model.config();
  shape_ = {c.layers, c.heads, c.kv_heads, c.head_dim};
  scale_ = static_cast<float>(1.0 / std::sqrt(static_cast<double>(c.head_dim)));
  pool_ =
      std::make_shared<KvPool>(PageLayout{c.head_dim, options.kv_dtype, false}, backend.memory());
  raw_pool_ =
      std::make_shared<KvPool>(PageLayout{c.head_dim, options.kv_dtype, true}, backend.memory());
}

Sequence Engine::make_sequence(Policies policies, int tail_rows, bool raw_keys) const {
  const bool raw = raw_keys || policies.raw_keys();
  return Sequence(shape_, std::move(policies), raw ? raw_pool_ : pool_, tail_rows);
}

void Engine::copy(const float* from, float* to, std::size_t count) const {
  const Copy copy{reinterpret_cast<std::byte*>(to), reinterpret_cast<const std::byte*>(from),
                  count * sizeof(float)};
  memory_.copy({&copy, 1});
  memory_.finish();
}

void Engine::turn_to(std::span<const std::int32_t> positions, float* cos, float* sin) {
  const std::size_t count = positions.size() * static_cast<std::size_t>(shape_.head_dim / 2);
  float* angles = staging_.get(2 * count);
  rope_tables(model_.frequencies(), model_.config().rope.attention_factor, positions, angles,
              angles + count);
  copy(angles, cos, count);
  copy(angles + count, sin, count);
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
  const ModelConfig& c = model_.config();
  const auto hidden_size = static_cast<std::size_t>(c.hidden),
             ffn = static_cast<std::size_t>(c.ffn);
  Layout layout;
  layout.q_width = static_cast<std::size_t>(c.heads * c.head_dim);
  layout.kv_width = static_cast<std::size_t>(c.kv_heads * c.head_dim);
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
    layout.raw_keys |= pass.sequence->cache.raw_keys();
    const std::size_t context =
        static_cast<std::size_t>(pass.sequence->next_position) + pass.tokens.size();
    size.context += context;
    size.longest = std::max(size.longest, context);
  }
  size.rows = layout.rows;
  size.raw_keys = layout.raw_keys;
  check_memory(size);
  for (const Pass& pass : passes) {  // from here on nothing is refused
    if (pass.kind == Pass::Kind::kDecode) ++pass.sequence->generated;
    pass.sequence->tokens.insert(pass.sequence->tokens.end(), pass.tokens.begin(),
                                 pass.tokens.end());
    layout.dialogues.push_back(pass.dialogue != nullptr ? *pass.dialogue : DialogueView{});
    layout.dialogues.back().tokens = pass.sequence->tokens;
  }

  const std::size_t rows = layout.rows, block = std::min(rows, kActivationRows);
  float* x = hidden_.get(rows * hidden_size);
  {
    std::vector<int> tokens;
    for (const Pass& pass : passes)
      tokens.insert(tokens.end(), pass.tokens.begin(), pass.tokens.end());
    backend_.embed(model_.embedding(), tokens, x);
  }
  const std::size_t angles = rows * static_cast<std::size_t>(c.head_dim / 2);
  float *cos = cos_.get(angles), *sin = sin_.get(angles);
  turn_to(layout.positions, cos, sin);
  const std::size_t qkv_width = layout.q_width + 2 * layout.kv_width;
  float* normed = normed_.get(block * hidden_size);
  float* wide = wide_.get(block * std::max({qkv_width, 3 * ffn, hidden_size}));
  float* q = q_.get(rows * layout.q_width);
  float* k = k_.get(rows * layout.kv_width);
  float* v = v_.get(rows * layout.kv_width);
  float* raw_k = layout.raw_keys ? raw_k_.get(rows * layout.kv_width) : nullptr;
  float* attended = attended_.get(rows * layout.q_width);
  const auto head_dim = static_cast<std::size_t>(c.head_dim);

  for (int l = 0; l < c.layers; ++l) {
    const LayerWeights& w = model_.layer(l);
    for (std::size_t r = 0; r < rows; r += block) {
      const std::size_t n = std::min(block, rows - r);
      backend_.rms_norm(x + r * hidden_size, hidden_size, n, hidden_size, w.attention_norm.data(),
                        c.norm_eps, normed, hidden_size);
      backend_.linear(normed, hidden_size, n, *w.qkv, w.qkv_bias.data(), wide, qkv_width);
      if (c.qk_norm) {
        for (int h = 0; h < c.heads + c.kv_heads; ++h) {  // queries first, then keys
          float* head = wide + static_cast<std::size_t>(h) * head_dim;
          backend_.rms_norm(head, qkv_width, n, head_dim,
                            (h < c.heads ? w.q_norm : w.k_norm).data(), c.norm_eps, head,
                            qkv_width);
        }
      }
      if (raw_k != nullptr) {
        backend_.copy_rows(wide + layout.q_width, qkv_width, n, layout.kv_width,
                           raw_k + r * layout.kv_width, layout.kv_width);
      }
      // Queries and keys stand side by side, so one call turns both.
      backend_.rotate(wide, qkv_width, n, c.heads + c.kv_heads, c.head_dim, cos + r * head_dim / 2,
                      sin + r * head_dim / 2);
      backend_.copy_rows(wide, qkv_width, n, layout.q_width, q + r * layout.q_width,
                         layout.q_width);
      backend_.copy_rows(wide + layout.q_width, qkv_width, n, layout.kv_width,
                         k + r * layout.kv_width, layout.kv_width);
      backend_.copy_rows(wide + layout.q_width + layout.kv_width, qkv_width, n, layout.kv_width,
                         v + r * layout.kv_width, layout.kv_width);
    }
    append_keys(l, passes, layout);
    attention_layer(l, passes, layout);
    for (std::size_t r = 0; r < rows; r += block) {
      const std::size_t n = std::min(block, rows - r);
      float* rows_of_x = x + r * hidden_size;
      backend_.linear(attended + r * layout.q_width, layout.q_width, n, *w.out, w.out_bias.data(),
                      normed, hidden_size);
      backend_.add(rows_of_x, normed, n * hidden_size);
      backend_.rms_norm(rows_of_x, hidden_size, n, hidden_size, w.ffn_norm.data(), c.norm_eps,
                        normed, hidden_size);
      backend_.linear(normed, hidden_size, n, *w.gate_up, w.gate_up_bias.data(), wide, 2 * ffn);
      float* product = wide + block * 2 * ffn;
      backend_.silu_multiply(wide, n, ffn, product);
      backend_.linear(product, ffn, n, *w.down, w.down_bias.data(), normed, hidden_size);
      backend_.add(rows_of_x, normed, n * hidden_size);
    }
  }

  std::vector<std::vector<float>> out(passes.size());
  const auto vocab = static_cast<std::size_t>(c.vocab);
  for (std::size_t i = 0; i < passes.size(); ++i) {
    const Pass& pass = passes[i];
    Sequence& s = *pass.sequence;
    const bool shifted =
        s.policies.raw_keys() && (pass.kind == Pass::Kind::kDecode || pass.prompt_end);
    s.next_position = shifted ? s.cache.layer(0)[0].size()
                              : s.next_position + static_cast<std::int32_t>(pass.tokens.size());
    if (pass.prompt_end) {
      s.prompt_tokens = static_cast<int>(s.tokens.size());
      s.generated = 0;
      for (Sequence* f : pass.followers) {
        f->tokens = s.tokens;
        f->next_position = f->policies.raw_keys() ? f->cache.layer(0)[0].size() : s.next_position;
        f->prompt_tokens = s.prompt_tokens;
        f->generated = 0;
        f->counters.prefill_pairs = s.counters.prefill_pairs;
        f->counters.prefill_pairs_dense = s.counters.prefill_pairs_dense;
      }
    }
  }
  // The output head: all wanted rows as one product.
  std::vector<std::size_t> wanted;
  for (std::size_t i = 0; i < passes.size(); ++i) {
    const std::size_t n = passes[i].tokens.size();
    for (std::size_t r = passes[i].all_logits ? 0 : n - 1; r < n; ++r)
      wanted.push_back(layout.first_row[i] + r);
  }
  for (std::size_t first = 0, pass = 0, taken = 0; first < wanted.size(); first += block) {
    const std::size_t n = std::min(block, wanted.size() - first);
    for (std::size_t i = 0; i < n; ++i) {
      backend_.rms_norm(x + wanted[first + i] * hidden_size, hidden_size, 1, hidden_size,
                        model_.norm().data(), c.norm_eps, normed + i * hidden_size, hidden_size);
    }
    float* logits = logits_.get(n * vocab);
    backend_.linear(normed, hidden_size, n, model_.head(), nullptr, logits, vocab);
    std::vector<Copy> copies;
    for (std::size_t i = 0; i < n; ++i) {
      auto& to = out[pass];
      if (taken == 0) to.resize((passes[pass].all_logits ? passes[pass].tokens.size() : 1) * vocab);
      copies.push_back({reinterpret_cast<std::byte*>(to.data() + taken * vocab),
                        reinterpret_cast<const std::byte*>(logits + i * vocab),
                        vocab * sizeof(float)});
      if (++taken == (passes[pass].all_logits ? passes[pass].tokens.size() : 1)) {
        ++pass;
        taken = 0;
      }
    }
    memory_.copy(copies);
    memory_.finish();
  }
  return out;
}

void Engine::check_memory(const PassSize& pass) const {
  if (options_.memory_limit == 0) return;
  const std::size_t need = model_.weight_bytes() + kv_bytes() +
                           kv_bytes_of((pass.raw_keys ? raw_pool_ : pool_)->layout(), shape_.layers,
                                       shape_.kv_heads, pass.rows) +
                           workspace_bytes_of(model_.config(), pass, backend_.threads());
  if (need > options_.memory_limit) {
    throw memory_error(
        "needs {} MiB for {} rows on {} cached tokens, more than the limit of {} MiB", need >> 20,
        pass.rows, pass.longest, options_.memory_limit >> 20);
  }
}

std::size_t Engine::kv_bytes() const {
  return pool_->live_bytes() + raw_pool_->live_bytes();
}
std::size_t Engine::peak_kv_bytes() const {
  return pool_->peak_bytes() + raw_pool_->peak_bytes();
}

void Engine::reset_peak() {
  pool_->reset_peak();
  raw_pool_->reset_peak();
}

std::size_t Engine::workspace_bytes() const {
  std::size_t total = backend_.workspace_bytes();
  for (const Scratch* s : {&hidden_, &normed_, &wide_, &q_, &k_, &raw_k_, &v_, &attended_, &lse_,
                           &cos_, &sin_, &logits_, &turned_, &staging_}) {
    total += s->bytes();
  }
  return total;
}

}  // namespace turnbench
