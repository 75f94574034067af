#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "inference/attention_pattern.h"
#include "inference/dtype.h"
#include "inference/kv_cache.h"
#include "inference/matrix_view.h"
#include "inference/model_config.h"
#include "inference/pass_size.h"

namespace turnbench {

// Activations (`x`, `y`, `q`, `out`, `lse` and their like) are in the backend's memory, everything
// else that an operation is given (positions, slots, patterns, seeds) is the host's; where a result
// is the host's, the operation returns when it is there.
//
// [a, b] is a row-major matrix, float32 where nothing else is said.  Sizes count elements,
// positions and slots count tokens.

/// New rows of one set: slots [first, first + rows), whose positions the set knows, receive the
/// rows of `k`, `v` and `pre_rope_k` (the keys before RoPE), each [rows, head_dim], as the set's
/// dtype.
struct AppendJob {
  KvHeadCache* set = nullptr;
  int first = 0;
  MatrixView<const float> k;
  MatrixView<const float> v = {};           ///< may be null: then only keys are written
  MatrixView<const float> pre_rope_k = {};  ///< null where the set keeps none

  int rows() const { return static_cast<int>(k.rows); }
};

/// Consecutive rows of one sequence over one kept set, for the query heads that read it.  A row
/// sees the keys at or before its own position (and within `sliding_window` if that is not 0).
struct CausalRows {
  const KvHeadCache* keys = nullptr;
  MatrixView<const float> q;                ///< [rows, heads * head_dim]
  const std::int32_t* positions = nullptr;  ///< [rows], ascending
  int sliding_window = 0;                   ///< in positions

  int rows() const { return static_cast<int>(q.rows); }
  int heads() const { return static_cast<int>(q.columns / keys->layout().head_dim); }
};

/// Attention: softmax in float32 over what a row sees.
struct AttentionJob : CausalRows {
  MatrixView<float> out;  ///< [rows, heads * head_dim]
  MatrixView<float> lse;  ///< log-sum-exp of the scaled scores, [rows, heads]; may be null
  /// Single rows only: attend to these slots (ascending) and to nothing else.
  const std::vector<std::int32_t>* slots = nullptr;
  /// One pattern for each head, or null for dense.
  const HeadPattern* patterns = nullptr;
  PatternPass pass;
};

/// Noise and temperature of the rows of a ColumnJob.
struct RowNoise {
  MatrixView<const std::uint64_t> seeds;  ///< of the Gumbel noise, [rows, heads]; null for none
  float inverse_temperature = 1;
};

/// Column sums of dense attention: what the rows give to every slot of the set.
struct ColumnJob : CausalRows {
  MatrixView<const float> lse;  ///< [rows, heads], as AttentionJob leaves it
  /// If not null, a row counts as softmax((logit + g) / temperature), with g drawn from
  /// Gumbel(0, 1) as a function of the row's seed and the key's position.
  const RowNoise* noise = nullptr;
  MatrixView<float> sums;  ///< the host's, [heads, slots], added to
};

/// Attention mass of the rows, summed row by row in order; `q` may be the host's too.
struct LineMassJob : CausalRows {
  MatrixView<float> vertical;  ///< the host's, [heads, slots], added to
  /// The host's, [greatest distance + 1], by the distance of the positions of row and key, for one
  /// head; added to.  May be null.
  float* slash = nullptr;
};

/// What a machine can do at best, per second.
struct Ceilings {
  double flops = 0;       ///< float32 operations of multiply-adds
  double read_bytes = 0;  ///< from memory, one after the other
};

/// Weights of a linear layer, [out, in], in a backend-specific layout.
class WeightMatrix {
 public:
  virtual ~WeightMatrix() = default;
  virtual std::int64_t out() const = 0;
  virtual std::int64_t in() const = 0;
  virtual std::size_t bytes() const = 0;
  /// Takes `source` [rows, in] (of `dtype`, at any address) as outputs [first, first + rows).
  virtual void set_rows(std::int64_t first, const std::byte* source, DType dtype,
                        std::int64_t rows) = 0;
  /// Output row `o` as float, [in] (for embeddings tied to the head).
  virtual void read_row(std::int64_t o, float* out) const = 0;
};

/// What the launches of a pass that is made over and over depend on.
struct ReplayKey {
  std::int64_t rows = 0;
  std::vector<const float*> memory = {};  ///< activations, in the backend's memory

  bool operator==(const ReplayKey&) const = default;
};

/// Work that its owner asks of a backend over and over, which the backend may record and do again
/// at once.  It must not outlive the backend.
class Replay {
 public:
  virtual ~Replay() = default;
  /// Does `work`, which is part `part` of the pass that the key describes: operations of the
  /// backend, always the same ones with the same arguments, none of which takes anything from the
  /// host's memory or waits.  What is in the backend's memory may be other each time.
  /// @throws Error (runtime) if a backend that records finds one that does.
  virtual void run(const ReplayKey& key, int part, const std::function<void()>& work) = 0;
};

/// The few operations that the decoder and the statistics are made of.  Activations are float32 and
/// row-major; sums are accumulated in float32 in an order that depends on nothing but the shapes.
/// One thread at a time asks for them, unless it says otherwise.
class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::string description() const = 0;
  virtual int threads() const = 0;
  /// Whether a row has the same bits whatever rows are computed with it: then no split into chunks,
  /// passes or batches shows.  A backend of which this is false gives the same bits when it is
  /// asked the same again.
  virtual bool rows_are_independent() const = 0;

  /// What activations, keys and values live in.
  virtual const std::shared_ptr<Memory>& memory() = 0;
  virtual std::unique_ptr<WeightMatrix> make_matrix(std::int64_t out, std::int64_t in,
                                                    DType dtype) = 0;

  /// out[i] = row tokens[i] of `table`, [tokens, table.in()].
  virtual void embed(const WeightMatrix& table, std::span<const int> tokens, float* out) = 0;

  /// y[r, o] = bias[o] + sum_i x[r, i] w[o, i].  x: [rows, w.in()]; bias: [w.out()] or null; y:
  /// [rows, w.out()].
  virtual void linear(MatrixView<const float> x, const WeightMatrix& w, const float* bias,
                      MatrixView<float> y) = 0;
  /// out[r] = x[r] / sqrt(mean(x[r]^2) + eps) * weight.  x, out: [rows, width]; weight: [width];
  /// out may be x.
  virtual void rms_norm(MatrixView<const float> x, const float* weight, float eps,
                        MatrixView<float> out) = 0;
  /// Rotates in place every head of row r, half-split pairs (d, d + head_dim / 2), by row r of
  /// cos and sin, the cosines and sines of the angles.  x: [rows, heads * head_dim]; cos and sin:
  /// [rows, head_dim / 2].
  virtual void apply_rope(MatrixView<float> x, MatrixView<const float> cos,
                          MatrixView<const float> sin) = 0;
  /// out = silu(gate) * up, silu(x) = x * sigmoid(x).  gate_up: [rows, 2 * width], gate first; out:
  /// [rows, width].
  virtual void silu_multiply(MatrixView<const float> gate_up, MatrixView<float> out) = 0;
  /// x += y, n floats.
  virtual void add(float* x, const float* y, std::int64_t n) = 0;
  /// to[r] = from[r].  from, to: [rows, width], apart from each other.
  virtual void copy_rows(MatrixView<const float> from, MatrixView<float> to) = 0;
  virtual void append(std::span<const AppendJob> jobs) = 0;
  /// Unrotated keys of slots [first, first + out.rows) as floats.  out: [rows, head_dim].
  virtual void read_pre_rope_keys(const KvHeadCache& set, int first, MatrixView<float> out) = 0;
  /// Attention of all jobs, whose scores are `scale` times q k; see AttentionJob.
  virtual void attend(float scale, std::span<const AttentionJob> jobs) = 0;
  /// sums += exp(scaled score - lse), or what its noise makes of it, over the rows of each job; see
  /// ColumnJob.
  virtual void add_column_sums(float scale, std::span<const ColumnJob> jobs) = 0;
  /// Dense causal attention probabilities of some rows of one query head over one set: out[r, s] of
  /// slot s, 0 where row r, at positions[r], does not see.  q: [rows, head_dim], the host's or the
  /// backend's; out: [rows, columns], the host's, its rows side by side and at least the set's size
  /// rounded up to 64 wide, and written whole.  May be called by several threads at once.
  virtual void row_probabilities(float scale, const KvHeadCache& keys, MatrixView<const float> q,
                                 const std::int32_t* positions, int sliding_window,
                                 MatrixView<float> out) = 0;
  /// Sums of such probabilities.  May be called by several threads at once, tasks of parallel_for
  /// among them.
  virtual void add_line_mass(float scale, std::span<const LineMassJob> jobs) = 0;
  /// task(i) for i in [0, count) on the backend's host threads.
  virtual void parallel_for(std::size_t count, const std::function<void(std::size_t)>& task) = 0;

  virtual std::unique_ptr<Replay> make_replay() = 0;

  /// Measured now, with all threads of this backend; fractions of a second.
  virtual Ceilings measure_ceilings() = 0;

  /// Bytes of scratch that the linear layers and the attention of a pass take at most.
  virtual std::size_t scratch_bytes(const ModelConfig& config, const PassSize& pass) const = 0;
  /// Bytes of scratch that the backend holds now.
  virtual std::size_t workspace_bytes() const = 0;
};

/// As a model and its engine take them: one for each stage.
inline std::vector<Backend*> pointers_to(std::span<const std::unique_ptr<Backend>> backends) {
  std::vector<Backend*> out;
  for (const auto& backend : backends) out.push_back(backend.get());
  return out;
}

/// What a CPU backend of `threads` threads says of `Backend::scratch_bytes`.
std::size_t cpu_scratch_bytes(const ModelConfig& config, const PassSize& pass, int threads);

/// The CPU backend with `threads` threads (0 = all processors of this process).
std::unique_ptr<Backend> make_cpu_backend(int threads);

}  // namespace turnbench
