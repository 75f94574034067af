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
#include "inference/model_config.h"
#include "inference/pass_size.h"

namespace turnbench {

// Activations (`x`, `y`, `q`, `out`, `lse` and their like) are in the backend's memory, everything
// else that an operation is given (positions, slots, patterns, seeds) is the host's; where a result
// is the host's, the operation returns when it is there.

/// New rows of one set: slots [first, first + rows), whose positions the set knows, receive row r's
/// key and value from k and v + r * stride, and its unrotated key from pre_rope_k, as the set's
/// dtype. Without v only the keys are written.
struct AppendJob {
  KvHeadCache* set = nullptr;
  int first = 0, rows = 0;
  const float *k = nullptr, *v = nullptr, *pre_rope_k = nullptr;
  std::size_t stride = 0;
};

/// Consecutive rows of one sequence over one kept set, for the `heads` query heads that read it.  A
/// row sees the keys at or before its own position (and within `sliding_window` if that is not 0).
struct CausalRows {
  const KvHeadCache* keys = nullptr;
  const float* q = nullptr;  ///< row r, head h: q + r * q_stride + h * head_dim
  std::size_t q_stride = 0;
  int heads = 1;
  const std::int32_t* positions = nullptr;  ///< of the rows, ascending
  int rows = 0;
  int sliding_window = 0;
};

/// Attention: softmax in float32 over what a row sees.
struct AttentionJob : CausalRows {
  float* out = nullptr;  ///< laid out as q
  std::size_t out_stride = 0;
  float* lse = nullptr;  ///< log-sum-exp of row r, head h: lse[r * lse_stride + h]; may be null
  std::size_t lse_stride = 0;
  /// Single rows only: attend to these slots (ascending) and to nothing else.
  const std::vector<std::int32_t>* slots = nullptr;
  /// One pattern for each of `heads`, or null for dense.
  const HeadPattern* patterns = nullptr;
  PatternPass pass;
};

/// Noise and temperature of the rows of a ColumnJob, at [r * stride + h] as its lse.
struct RowNoise {
  const std::uint64_t* seeds = nullptr;  ///< of the Gumbel noise; null for none
  float inverse_temperature = 1;
};

/// Column sums of dense attention: what the rows give to every slot of the set.
struct ColumnJob : CausalRows {
  const float* lse = nullptr;  ///< as AttentionJob leaves it
  std::size_t lse_stride = 0;
  /// If not null, a row counts as softmax((logit + g) / temperature), with g drawn from
  /// Gumbel(0, 1) as a function of the row's seed and the key's position.
  const RowNoise* noise = nullptr;
  float* sums = nullptr;  ///< the host's; head h, slot s: sums[h * sums_stride + s], added to
  std::size_t sums_stride = 0;
};

/// Attention mass of the rows, summed row by row in order; `q` may be the host's too.
struct MassJob : CausalRows {
  /// The host's, head h, slot s: vertical[h * vertical_stride + s], added to.
  float* vertical = nullptr;
  std::size_t vertical_stride = 0;
  /// The host's, by the distance of row and key, for one head; added to.  May be null.
  float* slash = nullptr;
};

/// What a machine can do at best, per second.
struct Ceilings {
  double flops = 0;       ///< float32 operations of multiply-adds
  double read_bytes = 0;  ///< from memory, one after the other
};

/// Weights of a linear layer, [out, in], in a backend-specific layout.
class Matrix {
 public:
  virtual ~Matrix() = default;
  virtual std::size_t out() const = 0;
  virtual std::size_t in() const = 0;
  virtual std::size_t bytes() const = 0;
  /// Takes `rows` rows of `in` elements (row-major, `dtype`, any alignment) as outputs
  /// [first, first + rows).
  virtual void put_rows(std::size_t first, const std::byte* source, DType dtype,
                        std::size_t rows) = 0;
  /// Output row `o` as float, [in] (for embeddings tied to the head).
  virtual void read_row(std::size_t o, float* out) const = 0;
};

/// What the launches of a pass that is made over and over depend on.
struct ReplayKey {
  std::size_t rows = 0;
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
  virtual std::unique_ptr<Matrix> make_matrix(std::size_t out, std::size_t in, DType dtype) = 0;

  /// out[i] = row tokens[i] of `table`, [tokens, table.in()].
  virtual void embed(const Matrix& table, std::span<const int> tokens, float* out) = 0;

  /// y[r, o] = bias[o] + sum_i x[r, i] w[o, i]; bias may be null.  x: rows `ldx` apart; y: `ldy`.
  virtual void linear(const float* x, std::size_t ldx, std::size_t rows, const Matrix& w,
                      const float* bias, float* y, std::size_t ldy) = 0;
  /// out[r] = x[r] / rms(x[r]) * weight; out may be x.
  virtual void rms_norm(const float* x, std::size_t ldx, std::size_t rows, std::size_t width,
                        const float* weight, float eps, float* out, std::size_t ldo) = 0;
  /// Rotates row r's `heads` heads in place by cos, sin [rows, head_dim / 2].
  virtual void rotate(float* x, std::size_t ldx, std::size_t rows, int heads, int head_dim,
                      const float* cos, const float* sin) = 0;
  /// gate_up: [rows, 2 width], gate first; out: [rows, width] = silu(gate) * up.
  virtual void silu_multiply(const float* gate_up, std::size_t rows, std::size_t width,
                             float* out) = 0;
  /// x += y, n floats.
  virtual void add(float* x, const float* y, std::size_t n) = 0;
  /// to[r] = from[r], rows of `width` floats.
  virtual void copy_rows(const float* from, std::size_t ld_from, std::size_t rows,
                         std::size_t width, float* to, std::size_t ld_to) = 0;
  virtual void append(std::span<const AppendJob> jobs) = 0;
  /// Unrotated keys of slots [first, first + rows) as floats, [rows, head_dim].
  virtual void read_pre_rope_keys(const KvHeadCache& set, int first, int rows, float* out) = 0;
  /// Attention of all jobs; see AttentionJob.
  virtual void attend(float scale, std::span<const AttentionJob> jobs) = 0;
  /// sums += exp(scaled score - lse), or what its noise makes of it, over the rows of each job; see
  /// ColumnJob.
  virtual void add_column_sums(float scale, std::span<const ColumnJob> jobs) = 0;
  /// Dense causal attention probabilities of some rows (the host's or the backend's) of one query
  /// head over one set: out[r * ld + slot], the host's, 0 where a row does not see; `ld` is at
  /// least the set's size rounded up to 64 and is written whole.  May be called by several threads
  /// at once.
  virtual void row_probabilities(float scale, const KvHeadCache& keys, const float* q,
                                 std::size_t q_stride, const std::int32_t* positions, int rows,
                                 int sliding_window, float* out, std::size_t ld) = 0;
  /// Sums of such probabilities.  May be called by several threads at once, tasks of parallel_for
  /// among them.
  virtual void add_mass(float scale, std::span<const MassJob> jobs) = 0;
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
