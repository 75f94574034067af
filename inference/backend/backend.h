#pragma once

#include <cassert>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "inference/attention/attention_pattern.h"
#include "inference/backend/pass_size.h"
#include "inference/backend/selection_jobs.h"
#include "inference/kv/kv_cache.h"
#include "inference/model/dtype.h"
#include "inference/model/matrix_view.h"
#include "inference/model/model_config.h"

namespace turnbench {

// Activations (`x`, `y`, `q`, `out`, `lse` and so on) are in the backend's memory.  All other
// arguments (positions, slots, patterns, seeds) are in host memory.  An operation whose result is
// in host memory returns when the result is complete; other operations may return earlier.
//
// [a, b] is a row-major matrix of float32 unless a comment says otherwise.  Sizes count elements;
// positions and slots count tokens.

/// Writes new rows of one KV set to slots [first, first + rows), by which the set has already been
/// extended.  k, v, pre_rope_k (keys before RoPE): [rows, head_dim]; they are rounded to the set's
/// dtype.
struct AppendJob {
  KvHeadCache* set = nullptr;
  int first = 0;
  MatrixView<const float> k;
  MatrixView<const float> v = {};           ///< null: only keys are written
  MatrixView<const float> pre_rope_k = {};  ///< null if the set does not store pre-RoPE keys

  int rows() const { return static_cast<int>(k.rows); }
};

/// Query rows of one sequence and the KV set that they attend to, for the query heads that read
/// this set.  A row sees the keys at or before its position; if `sliding_window` is not 0, only
/// those less than `sliding_window` positions before it.
struct CausalRows {
  const KvHeadCache* keys = nullptr;
  MatrixView<const float> q;                ///< [rows, heads * head_dim]
  const std::int32_t* positions = nullptr;  ///< [rows], ascending
  int sliding_window = 0;                   ///< in positions; 0: none

  int rows() const { return static_cast<int>(q.rows); }
  int heads() const { return static_cast<int>(q.columns / keys->layout().head_dim); }
};

/// Attention of all rows: out = softmax(scale * q k^T) v over the keys that a row sees.
struct AttentionJob : CausalRows {
  MatrixView<float> out;  ///< [rows, heads * head_dim]
  MatrixView<float> lse;  ///< log-sum-exp of the scaled scores, [rows, heads]; may be null
  /// Only for a single row: it attends to these slots (ascending) and to no others.
  const std::vector<std::int32_t>* slots = nullptr;
  /// With `slots`: query head h attends to a slot if bit h of the slot's element is set.  Every
  /// head attends to at least one slot.  Null: all heads attend to all slots.
  const std::vector<std::uint32_t>* slot_heads = nullptr;
  /// Only with `slots`: scores use the keys before RoPE, which the set must store.
  bool pre_rope = false;
  /// One pattern per query head; null: dense attention.
  const HeadPattern* patterns = nullptr;
  /// kBF16: the factors of products are bf16: queries, keys and values, which must already be, and
  /// the softmax weights, which are rounded.
  Math math = Math::kF32;
  PatternPass pass;
  /// Nothing reads the results of the first rows: a backend may leave them out.
  int unread_rows = 0;
};

/// Rows whose attention statistics are computed.
struct StatisticRows : CausalRows {
  /// The number of rows in the attention call that included these rows; 0: only these rows.  A
  /// backend may round the queries if a call has several rows, but not those of a single row;
  /// statistics use the same queries as attention.
  int pass_rows = 0;

  int attended_rows() const { return pass_rows > 0 ? pass_rows : rows(); }
};

/// Gumbel noise and temperature of the rows of a ColumnJob (Adnan et al., Keyformer, 2024).
struct RowNoise {
  MatrixView<const std::uint64_t> seeds;  ///< [rows, heads]; null: no noise
  float inverse_temperature = 1;
};

/// Column sums of dense attention: for every slot, the sum over the rows of its probabilities.
struct ColumnJob : StatisticRows {
  MatrixView<const float> lse;  ///< [rows, heads], as AttentionJob leaves it
  /// If not null, the probabilities of a row are softmax((logit + g) / temperature).  g is drawn
  /// from Gumbel(0, 1) and depends only on the row's seed and the key's position.
  const RowNoise* noise = nullptr;
  MatrixView<float> sums;  ///< [heads, slots], in host memory; the job adds to it
};

/// Sums of dense attention probabilities along vertical and slash lines, row by row in order.  `q`
/// may also be in host memory.
struct LineMassJob : StatisticRows {
  MatrixView<float> vertical;  ///< [heads, slots], in host memory; the job adds to it
  /// [maximal distance + 1], in host memory, indexed by position of the row minus position of the
  /// key.  The job adds to it.  Only for one head; may be null.
  float* slash = nullptr;
};

/// The limits of a machine (the ceilings of the roofline model), per second.
struct Ceilings {
  double flops = 0;       ///< float32 operations, 2 per multiply-add
  double read_bytes = 0;  ///< bytes read from memory sequentially
  double bf16_flops = 0;  ///< operations of products with factors of bf16; 0: no such products
};

/// Weights of a linear layer, [out, in], in a layout of the backend.
class WeightMatrix {
 public:
  virtual ~WeightMatrix() = default;
  virtual std::int64_t out() const = 0;
  virtual std::int64_t in() const = 0;
  virtual std::size_t bytes() const = 0;
  /// Sets the weights of outputs [first, first + rows).  source: [rows, in] of `dtype`, in host
  /// memory, at any alignment.
  virtual void set_rows(std::int64_t first, const std::byte* source, DType dtype,
                        std::int64_t rows) = 0;
  /// Reads the weights of output `o`.  out: [in].
  virtual void read_row(std::int64_t o, float* out) const = 0;
};

/// Identifies the recorded operations of a pass.
struct ReplayKey {
  std::int64_t rows = 0;
  std::vector<const float*> memory = {};  ///< addresses of the activations

  bool operator==(const ReplayKey&) const = default;
};

/// Operations that repeat in every decode step.  A backend may record them and launch them again as
/// a whole (CUDA graphs).  Must not outlive the backend.
class Replay {
 public:
  virtual ~Replay() = default;
  /// Runs `work`, part `part` of the pass that `key` describes.  For the same key and part, `work`
  /// must call the same operations of the backend with the same arguments.  The operations must not
  /// read host memory and must not wait.  The contents of the backend's memory may change between
  /// calls.
  /// @throws Error (runtime) if a recording backend encounters such an operation.
  virtual void run(const ReplayKey& key, int part, const std::function<void()>& work) = 0;
};

/// The operations of the decoder and of the attention statistics on one device.  Activations are
/// float32 and row-major.  Sums are accumulated in float32, in an order that depends only on the
/// shapes.  Only one thread may call operations at a time, unless a comment says otherwise.
class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::string description() const = 0;
  virtual int threads() const = 0;
  /// True if operations are batch-invariant: the bits of a row do not depend on the other rows of
  /// an operation, so results do not depend on the split into chunks, passes or batches.  If false,
  /// equal operations still give equal bits.
  virtual bool rows_are_independent() const = 0;
  /// Whether `attend` leaves out rows that nothing reads (AttentionJob::unread_rows).
  virtual bool leaves_out_rows() const { return false; }

  /// The memory of activations, keys and values.
  virtual const std::shared_ptr<Memory>& memory() = 0;
  /// A matrix whose products have this arithmetic; kBF16 requires weights of kBF16.
  /// @throws Error (input) if the backend does not have it.
  virtual std::unique_ptr<WeightMatrix> make_matrix(std::int64_t out, std::int64_t in, DType dtype,
                                                    Math math) = 0;

  /// out[i] = row tokens[i] of `table`.  out: [tokens, table.in()].
  virtual void embed(const WeightMatrix& table, std::span<const int> tokens, float* out) = 0;

  /// y[r, o] = bias[o] + sum_i x[r, i] w[o, i], in the arithmetic of `w`.  x: [rows, w.in()]; bias:
  /// [w.out()] or null; y: [rows, w.out()].
  virtual void linear(MatrixView<const float> x, const WeightMatrix& w, const float* bias,
                      MatrixView<float> y) = 0;
  /// out[r] = x[r] / sqrt(mean(x[r]^2) + eps) * weight.  x, out: [rows, width]; weight: [width];
  /// out may be x.
  virtual void rms_norm(MatrixView<const float> x, const float* weight, float eps,
                        MatrixView<float> out) = 0;
  /// Applies rms_norm to every head of every row in place: to the first `heads` heads with
  /// `weight`, to the others with `other_weight`.  x: [rows, all heads * head_dim]; weights:
  /// [head_dim].
  virtual void rms_norm_heads(MatrixView<float> x, int head_dim, int heads, const float* weight,
                              const float* other_weight, float eps) = 0;
  /// Applies RoPE in place: rotates the pairs (d, d + head_dim / 2) of every head of row r by the
  /// angles whose cosines and sines are row r of cos and sin.  x: [rows, heads * head_dim]; cos,
  /// sin: [rows, head_dim / 2].
  virtual void apply_rope(MatrixView<float> x, MatrixView<const float> cos,
                          MatrixView<const float> sin) = 0;
  /// Rounds x to bf16 in place: the queries of models with Math::kBF16, if the cache is bf16.
  virtual void round_to_bf16(MatrixView<float> /*x*/) { assert(false); }
  /// SwiGLU: out = silu(gate) * up with silu(x) = x * sigmoid(x).  gate_up: [rows, 2 * width], gate
  /// first; out: [rows, width].
  virtual void silu_multiply(MatrixView<const float> gate_up, MatrixView<float> out) = 0;
  /// x += y.  x, y: [n].
  virtual void add(float* x, const float* y, std::int64_t n) = 0;
  /// to[r] = from[r].  from, to: [rows, width]; they must not overlap.
  virtual void copy_rows(MatrixView<const float> from, MatrixView<float> to) = 0;
  // Operations on KV sets require that the backend `can_read` them.
  virtual void append(std::span<const AppendJob> jobs) = 0;
  /// Reads rows as float32; see ReadRowsJob.
  virtual void read_rows(std::span<const ReadRowsJob> jobs) = 0;
  /// A copy in host memory of rows of slots [first, end) as float32: [end - first, head_dim].
  /// Several threads may call it at once, including tasks of parallel_for.
  virtual std::vector<float> rows_on_host(const KvHeadCache& set, KvRow row, int first,
                                          int end) = 0;
  /// A copy in host memory of some rows of activations: [rows, from.columns].
  virtual std::vector<float> rows_on_host(MatrixView<const float> from,
                                          std::span<const int> rows) = 0;
  /// Computes the attention of all jobs; see AttentionJob.  Scores are scale * q k^T.
  virtual void attend(float scale, std::span<const AttentionJob> jobs) = 0;
  /// Adds exp(scale * score - lse), or the probability with the job's noise, over the rows of each
  /// job to its sums; see ColumnJob.
  virtual void add_column_sums(float scale, std::span<const ColumnJob> jobs) = 0;
  /// Dense causal attention probabilities of some rows of one query head over one set: out[r, s] is
  /// that of slot s, 0 if row r does not see it.  q: [rows, head_dim], in host memory or the
  /// backend's; positions: [rows]; out: [rows, columns] without gaps, in host memory; columns is at
  /// least the set's size rounded up to 64, and all are written.  Several threads may call it at
  /// once.
  virtual void row_probabilities(float scale, const KvHeadCache& keys, MatrixView<const float> q,
                                 const std::int32_t* positions, int sliding_window,
                                 MatrixView<float> out) = 0;
  /// Adds dense attention probabilities along lines; see LineMassJob.  Several threads may call it
  /// at once, including tasks of parallel_for.
  virtual void add_line_mass(float scale, std::span<const LineMassJob> jobs) = 0;

  // Operations by which decode steps select tokens; see selection_jobs.h.  Jobs of one call may
  // have different sets and sizes; no job may write data that another one reads.
  virtual void score_vectors(float scale, std::span<const VectorScoreJob> jobs) = 0;
  virtual void score_keys(float scale, std::span<const KeyScoreJob> jobs) = 0;
  virtual void update_page_bounds(std::span<const PageBoundsJob> jobs) = 0;
  virtual void score_pages(float scale, std::span<const PageScoreJob> jobs) = 0;
  virtual void score_codes(float scale, std::span<const CodeScoreJob> jobs) = 0;
  virtual void transpose_keys(std::span<const TransposeKeysJob> jobs) = 0;
  virtual void score_dimensions(float scale, std::span<const DimensionScoreJob> jobs) = 0;
  virtual void reduce_heads(std::span<const ReduceHeadsJob> jobs) = 0;
  virtual void slot_mass(std::span<const SlotMassJob> jobs) = 0;
  /// @throws Error (runtime) if a score is NaN.
  virtual void top_k(std::span<const TopKJob> jobs) = 0;
  virtual void assign_nearest(std::span<const NearestJob> jobs) = 0;
  virtual void add_values(std::span<const AddValuesJob> jobs) = 0;
  /// Rebuilds the keys of some slots; see RebuildKeysJob.
  virtual void rebuild_keys(std::span<const RebuildKeysJob> jobs) = 0;
  /// Blends attention outputs with a vector; see BlendJob.
  virtual void blend(std::span<const BlendJob> jobs) = 0;
  /// Merges two attention results over different keys; see MergeJob.
  virtual void merge(std::span<const MergeJob> jobs) = 0;

  /// Calls task(i) for i in [0, count) on the backend's host threads.
  virtual void parallel_for(std::size_t count, const std::function<void(std::size_t)>& task) = 0;

  virtual std::unique_ptr<Replay> make_replay() = 0;

  /// Measures the ceilings with all threads of this backend.  Takes less than a second.
  virtual Ceilings measure_ceilings() = 0;

  /// Upper bound of the scratch memory that linear layers and attention of a pass need, in bytes.
  virtual std::size_t scratch_bytes(const ModelConfig& config, const PassSize& pass) const = 0;
  /// Scratch memory that the backend currently holds, in bytes: what the largest operation since
  /// `release_workspace` needed, regardless of how threads shared the work.
  virtual std::size_t workspace_bytes() const = 0;
  virtual void release_workspace() = 0;
};

/// Whether a backend's operations can read a KV set: its pages are in the backend's memory.
inline bool can_read(Backend& backend, const KvHeadCache& set) {
  return &set.pool()->memory() == backend.memory().get();
}

/// The backends of a model's stages, as Model and Engine take them.
inline std::vector<Backend*> pointers_to(std::span<const std::unique_ptr<Backend>> backends) {
  std::vector<Backend*> out;
  for (const auto& backend : backends) out.push_back(backend.get());
  return out;
}

/// `Backend::scratch_bytes` of a CPU backend with `threads` threads.
std::size_t cpu_scratch_bytes(const ModelConfig& config, const PassSize& pass, int threads);

/// Makes the CPU backend with `threads` threads; 0: one per processor available to this process.
std::unique_ptr<Backend> make_cpu_backend(int threads);

}  // namespace turnbench
