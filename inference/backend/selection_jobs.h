#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "inference/kv/kv_cache.h"
#include "inference/model/dtype.h"
#include "inference/model/matrix_view.h"

namespace turnbench {

// Operations by which a decode step selects the tokens that it reads.  As for all operations of a
// Backend, data are in the backend's memory unless a comment says otherwise.  `q` are the query
// heads that read one KV set; scores are scaled by the operation's `scale`, which is positive.

/// Scores of queries against vectors that represent several tokens each (centroids, landmarks,
/// representatives): out[h, i] = scale * q[h] . vectors[i].
struct VectorScoreJob {
  MatrixView<const float> q;        ///< [heads, dim]
  MatrixView<const float> vectors;  ///< [n, dim]
  MatrixView<float> out;            ///< [heads, n]
};

/// Scores of the keys of a set: out[h, j] = scale * q[h] . key of slots[j], -inf where slots[j] is
/// -1.
struct KeyScoreJob {
  const KvHeadCache* set = nullptr;
  MatrixView<const float> q;            ///< [heads, head_dim]
  std::span<const std::int32_t> slots;  ///< [n], in host memory; none: 0, 1, ..., n - 1
  MatrixView<float> out;                ///< [heads, n]
};

/// Element-wise minima and maxima of the keys in each page of `page_tokens` slots, in the dtype of
/// the keys and thus exact.  Page p has slots [p * page_tokens, (p + 1) * page_tokens).  Any
/// `page_tokens` is valid; it may differ from the cache's page size.
struct PageBounds {
  std::byte *low = nullptr, *high = nullptr;  ///< [pages, head_dim] each, without gaps
  int page_tokens = 16;
  /// If not 0, the bounds are transposed: [head_dim, column_stride] each, as in the columns of a
  /// DimensionScoreJob.
  int column_stride = 0;
};

/// Computes the bounds of all pages with slots in [first, size of the set).  The bounds of a
/// partial last page cover the slots that it has.
struct PageBoundsJob {
  const KvHeadCache* set = nullptr;
  int first = 0;
  PageBounds bounds;
  int first_page = 0;  ///< the page in the first row of `bounds`; at most the page of slot `first`
};

/// Upper bounds of the scores of the tokens in each page (Tang et al., Quest, 2024): out[h, p] =
/// scale * sum_d max(q[h, d] * low[p, d], q[h, d] * high[p, d]).  If `low` equals `high`, these are
/// the exact scores of vectors stored in `dtype`.
struct PageScoreJob {
  MatrixView<const float> q;  ///< [heads, head_dim]
  PageBounds bounds;          ///< not transposed
  DType dtype = DType::kF32;
  MatrixView<float> out;  ///< [heads, pages]
};

/// Scores of product-quantised keys (Jegou et al., 2011) from lookup tables:
/// out[h, j] = scale * sum_i q[h, part i] . centroids[i * count + codes[i * code_stride + j], :].
struct CodeScoreJob {
  MatrixView<const float> q;          ///< [heads, dim]
  MatrixView<const float> centroids;  ///< [parts * count, dim / parts]; count at most 256
  int parts = 1;
  const std::uint8_t* codes = nullptr;  ///< [parts, code_stride]
  std::int64_t code_stride = 0;
  MatrixView<float> out;  ///< [heads, n]
};

/// Approximate scores from some dimensions of the keys (Ribar et al., SparQ, 2024): out[h, j] =
/// scale * factor[h] * sum_i q[h, dims[i]] * columns[dims[i], j].
struct DimensionScoreJob {
  MatrixView<const float> q;           ///< [heads, head_dim]
  std::span<const int> dims;           ///< in host memory
  std::span<const float> factors;      ///< [heads], in host memory; empty: all 1
  const std::byte* columns = nullptr;  ///< transposed keys, [head_dim, column_stride] of `dtype`
  std::int64_t column_stride = 0;
  DType dtype = DType::kF32;
  MatrixView<float> out;  ///< [heads, n]
};

/// Transposes the keys of slots [first, size of the set) into the columns of a DimensionScoreJob.
struct TransposeKeysJob {
  const KvHeadCache* set = nullptr;
  int first = 0;
  std::byte* columns = nullptr;
  std::int64_t column_stride = 0;
  int first_column = 0;  ///< the slot of the first column; at most `first`
};

/// How the scores of a set's query heads are reduced to one score.  The maximum of probabilities is
/// taken over their logarithms, which have the same order: most probabilities underflow in float32.
enum class HeadReduction { kSum, kMax, kSumOfSoftmax, kMaxOfLogSoftmax };
constexpr bool uses_softmax(HeadReduction reduction) {
  return reduction == HeadReduction::kSumOfSoftmax || reduction == HeadReduction::kMaxOfLogSoftmax;
}

/// out[j] = reduction over the heads of scores[h, j], of softmax(scores[h])[j], or of its
/// logarithm.  A head whose scores are all -inf adds nothing to a sum of softmax and ranks below
/// all others in a maximum of logarithms; a head with a NaN or +inf makes both NaN.  kMax: NaN
/// where a score is NaN.
struct ReduceHeadsJob {
  MatrixView<const float> scores;  ///< [heads, n]
  HeadReduction reduction = HeadReduction::kSum;
  MatrixView<float> out;  ///< [1, n]
};

/// Attention mass of a group of slots: out[h] = sum of softmax(scores[h]) over `slots`; 0 if all
/// scores are -inf, NaN if one is NaN or +inf.
struct SlotMassJob {
  MatrixView<const float> scores;       ///< [heads, n]
  std::span<const std::int32_t> slots;  ///< ascending, in host memory
  float* out = nullptr;                 ///< [heads]
};

/// The k highest of n scores, or all if k >= n.  Ties go to the lower index.  -inf is a valid
/// score; NaN is an error.
struct TopKJob {
  std::span<const float> scores;  ///< [n]
  int k = 0;
  std::vector<std::int32_t>* out = nullptr;  ///< ascending indices, in host memory
};

/// out[r] = index of the centroid nearest to vectors[r] by Euclidean distance; ties go to the
/// lowest index.  At most 256 centroids.
struct NearestJob {
  MatrixView<const float> vectors;    ///< [rows, dim]
  MatrixView<const float> centroids;  ///< [count, dim]
  std::uint8_t* out = nullptr;        ///< [rows]
};

/// Adds the values of slots [first, size of the set) to `sums`, slot by slot, so that the bits do
/// not depend on how slots are split into jobs.
struct AddValuesJob {
  const KvHeadCache* set = nullptr;
  int first = 0;
  double* sums = nullptr;   ///< [head_dim]
  std::int64_t tokens = 1;  ///< tokens in the sums afterwards
  float* mean = nullptr;    ///< [head_dim]: sums / tokens; may be null
};

/// out[h] = weights[h] * out[h] + (1 - weights[h]) * vector.
struct BlendJob {
  MatrixView<float> out;           ///< [heads, dim]
  const float* weights = nullptr;  ///< [heads]
  const float* vector = nullptr;   ///< [dim]
};

/// Merges two attention results of the same rows over disjoint sets of keys into one softmax:
/// (`out`, `lse`) and (`other_out`, `other_lse`), each an output and its log-sum-exp.  Writes the
/// result over all keys to `out` and `lse`.
struct MergeJob {
  MatrixView<float> out;              ///< [rows, heads * dim]
  MatrixView<float> lse;              ///< [rows, heads]; -inf where a row saw no key
  MatrixView<const float> other_out;  ///< [rows, heads * dim]
  MatrixView<const float> other_lse;  ///< [rows, heads]
};

/// Cosines and sines of RoPE for positions 0, 1, ...: [positions, head_dim / 2].
struct RopeTable {
  MatrixView<const float> cos, sin;
};

/// Rebuilds keys from low-rank factors: the key of row r before RoPE is coefficients[r] . basis.
/// It is rotated to the position of its slot and rounded to the set's dtype.
struct RebuildKeysJob {
  /// Rows row, row + 1, ... go to slots slot, slot + 1, ...
  struct Run {
    std::int32_t row = 0, slot = 0, count = 0;
  };
  KvHeadCache* set = nullptr;
  std::span<const Run> runs;                ///< in host memory
  const std::byte* coefficients = nullptr;  ///< [rows, basis.rows] of the set's dtype, without gaps
  MatrixView<const float> basis;            ///< [rank, head_dim]
  RopeTable rope;
};

/// Reads the rows of slots [first, first + out.rows) as float32.
struct ReadRowsJob {
  const KvHeadCache* set = nullptr;
  int first = 0;
  KvRow row = KvRow::kKey;
  MatrixView<float> out;  ///< [rows, head_dim]
};

}  // namespace turnbench
