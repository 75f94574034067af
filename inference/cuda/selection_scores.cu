// Scores of the query heads of a group: a warp reads each vector once for all of them, or a thread
// a code or an element of each dimension.

#include <algorithm>
#include <vector>

#include "inference/cuda/device.h"
#include "inference/cuda/selection.h"

namespace turnbench::cuda {
namespace {

constexpr int kChoiceThreads = 256, kChoiceWarps = kChoiceThreads / kWarp;
constexpr int kHeadsAtOnce = 8;

/// Query heads and where their scores go.
struct ScoredHeads {
  const float* q;
  std::int64_t q_stride;
  int heads, dim, n;
  float* out;
  std::int64_t by_head, by_row;  ///< strides of `out`

  ScoredHeads(MatrixView<const float> q, MatrixView<float> out)
      : q(q.data),
        q_stride(q.stride),
        heads(static_cast<int>(q.rows)),
        dim(static_cast<int>(q.columns)),
        n(static_cast<int>(out.columns)),
        out(out.data),
        by_head(out.stride),
        by_row(1) {}

  /// Copies the queries to shared memory [heads][dim], scaled.
  __device__ float* load_queries(float scale) const {
    auto* shared = reinterpret_cast<float*>(shared_memory());
    for (int i = static_cast<int>(threadIdx.x); i < heads * dim; i += kChoiceThreads)
      shared[i] = scale * q[i / dim * q_stride + i % dim];
    __syncthreads();
    return shared;
  }
  std::size_t query_bytes() const {
    return sizeof(float) * static_cast<std::size_t>(heads) * static_cast<std::size_t>(dim);
  }
};

/// Rows of floats: the terms of a score are products.
struct FloatRows {
  ScoredHeads heads;
  const float* vectors;
  std::int64_t stride;

  struct Row {
    const float* vector;
    __device__ float load(int d) const { return vector[d]; }
    __device__ static float add(float q, float x, float sum) { return fmaf(q, x, sum); }
    __device__ static float score(float sum) { return sum; }
  };
  __device__ Row row(int i) const { return {vectors + i * stride}; }
};

/// Bounds of pages: of the products with both the greater one.
template <typename T>
struct BoundRows {
  ScoredHeads heads;
  const T *low, *high;

  struct Both {
    float low, high;
  };
  struct Row {
    const T *low, *high;
    __device__ Both load(int d) const { return {to_float(low[d]), to_float(high[d])}; }
    __device__ static float add(float q, Both x, float sum) {
      return fmaf(q, q > 0 ? x.high : x.low, sum);
    }
    __device__ static float score(float sum) { return sum; }
  };
  __device__ Row row(int i) const {
    const std::int64_t at = std::int64_t{i} * heads.dim;
    return {low + at, high + at};
  }
};

/// Keys in pages; some rows may have none.
template <typename T>
struct PagedKeys {
  ScoredHeads heads;
  PageTable pages;
  const std::int32_t* slots;  ///< null: row i is slot i

  struct Row {
    const T* key;
    __device__ float load(int d) const { return key == nullptr ? 0 : to_float(key[d]); }
    __device__ static float add(float q, float x, float sum) { return fmaf(q, x, sum); }
    __device__ float score(float sum) const { return key == nullptr ? kMasked : sum; }
  };
  __device__ Row row(int i) const {
    const int slot = slots == nullptr ? i : slots[i];
    if (slot < 0) return {nullptr};
    return {reinterpret_cast<const T*>(pages[slot / kPageTokens]) +
            static_cast<std::size_t>(slot % kPageTokens) * heads.dim};
  }
};

/// Grid: (rows / kChoiceWarps, jobs); a warp takes a row.
template <class Rows>
__global__ void __launch_bounds__(kChoiceThreads) score_rows(const Rows* jobs, float scale) {
  const Rows job = jobs[blockIdx.y];
  const ScoredHeads& heads = job.heads;
  const int begin = static_cast<int>(blockIdx.x) * kChoiceWarps,
            index = begin + static_cast<int>(threadIdx.x) / kWarp,
            lane = static_cast<int>(threadIdx.x) % kWarp;
  if (begin >= heads.n) return;
  const float* q = heads.load_queries(scale);
  if (index >= heads.n) return;
  const auto row = job.row(index);
  for (int first = 0; first < heads.heads; first += kHeadsAtOnce) {
    const int count = min(kHeadsAtOnce, heads.heads - first);
    float sums[kHeadsAtOnce] = {};
    for (int d = lane; d < heads.dim; d += kWarp) {
      const auto x = row.load(d);
#pragma unroll
      for (int h = 0; h < kHeadsAtOnce; ++h) {
        if (h < count) sums[h] = row.add(q[(first + h) * heads.dim + d], x, sums[h]);
      }
    }
#pragma unroll
    for (int h = 0; h < kHeadsAtOnce; ++h) {
      const float sum = warp_sum(sums[h]);
      if (h < count && lane == 0)
        heads.out[(first + h) * heads.by_head + index * heads.by_row] = row.score(sum);
    }
  }
}

/// What scores keys of one job by their codes.  table: [parts * count][heads].
struct CodedKeys {
  const float* table;
  const std::uint8_t* codes;
  std::int64_t code_stride;
  int heads, parts, count, n;
  float* out;
  std::int64_t stride;
};

/// Grid: (keys / kChoiceThreads, jobs); a thread takes a key.
__global__ void __launch_bounds__(kChoiceThreads) score_coded_keys(const CodedKeys* jobs) {
  const CodedKeys job = jobs[blockIdx.y];
  const int j = static_cast<int>(blockIdx.x * kChoiceThreads + threadIdx.x);
  if (j >= job.n) return;
  for (int first = 0; first < job.heads; first += kHeadsAtOnce) {
    const int count = min(kHeadsAtOnce, job.heads - first);
    float sums[kHeadsAtOnce] = {};
    for (int i = 0; i < job.parts; ++i) {
      const int code = i * job.count + job.codes[i * job.code_stride + j];
      const float* row = job.table + std::int64_t{code} * job.heads + first;
#pragma unroll
      for (int h = 0; h < kHeadsAtOnce; ++h) {
        if (h < count) sums[h] += row[h];
      }
    }
#pragma unroll
    for (int h = 0; h < kHeadsAtOnce; ++h) {
      if (h < count) job.out[(first + h) * job.stride + j] = sums[h];
    }
  }
}

/// Dimensions of transposed keys.
struct KeyColumns {
  ScoredHeads heads;
  const int* dims;
  int count;
  const float* factors;  ///< null: all 1
  const std::byte* columns;
  std::int64_t stride;
  DType dtype;
};

template <typename T>
__device__ void score_column(const KeyColumns& job, const float* q, int j) {
  const T* columns = reinterpret_cast<const T*>(job.columns) + j;
  for (int first = 0; first < job.heads.heads; first += kHeadsAtOnce) {
    const int heads = min(kHeadsAtOnce, job.heads.heads - first);
    float sums[kHeadsAtOnce] = {};
    for (int i = 0; i < job.count; ++i) {
      const float x = to_float(columns[job.dims[i] * job.stride]);
#pragma unroll
      for (int h = 0; h < kHeadsAtOnce; ++h) {
        if (h < heads) sums[h] = fmaf(q[(first + h) * job.count + i], x, sums[h]);
      }
    }
#pragma unroll
    for (int h = 0; h < kHeadsAtOnce; ++h) {
      if (h < heads) job.heads.out[(first + h) * job.heads.by_head + j] = sums[h];
    }
  }
}

/// Grid: (keys / kChoiceThreads, jobs); a thread takes a key.
__global__ void __launch_bounds__(kChoiceThreads)
    score_columns(const KeyColumns* jobs, float scale) {
  const KeyColumns job = jobs[blockIdx.y];
  const int begin = static_cast<int>(blockIdx.x) * kChoiceThreads,
            j = begin + static_cast<int>(threadIdx.x);
  if (begin >= job.heads.n) return;
  auto* q = reinterpret_cast<float*>(shared_memory());  // [heads][count]
  for (int i = static_cast<int>(threadIdx.x); i < job.heads.heads * job.count;
       i += kChoiceThreads) {
    const int h = i / job.count;
    const float factor = job.factors == nullptr ? scale : scale * job.factors[h];
    q[i] = factor * job.heads.q[h * job.heads.q_stride + job.dims[i % job.count]];
  }
  __syncthreads();
  if (j >= job.heads.n) return;
  switch (job.dtype) {
    case DType::kF32:
      return score_column<float>(job, q, j);
    case DType::kF16:
      return score_column<__half>(job, q, j);
    case DType::kBF16:
      return score_column<__nv_bfloat16>(job, q, j);
  }
}

dim3 choice_grid(std::int64_t items, int per_block, std::size_t jobs) {
  return dim3(static_cast<unsigned>((items + per_block - 1) / per_block),
              static_cast<unsigned>(jobs));
}

template <class Rows>
void score_all_rows(Context& context, float scale, const std::vector<Rows>& jobs) {
  std::size_t shared = 0;
  int n = 0;
  for (const Rows& job : jobs) {
    shared = std::max(shared, job.heads.query_bytes());
    n = std::max(n, job.heads.n);
  }
  context.launch(score_rows<Rows>, choice_grid(n, kChoiceWarps, jobs.size()), kChoiceThreads,
                 shared, context.upload(jobs), scale);
}

}  // namespace

void score_vectors(Context& context, float scale, std::span<const VectorScoreJob> jobs) {
  context.begin();
  std::vector<FloatRows> rows;
  for (const VectorScoreJob& job : jobs)
    rows.push_back({{job.q, job.out}, job.vectors.data, job.vectors.stride});
  score_all_rows(context, scale, rows);
}

void score_pages(Context& context, float scale, std::span<const PageScoreJob> jobs) {
  context.begin();
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
    with_type(dtype, [&](auto type) {
      using T = decltype(type);
      std::vector<BoundRows<T>> rows;
      for (const PageScoreJob& job : jobs) {
        if (job.dtype != dtype) continue;
        rows.push_back({{job.q, job.out},
                        reinterpret_cast<const T*>(job.bounds.low),
                        reinterpret_cast<const T*>(job.bounds.high)});
      }
      score_all_rows(context, scale, rows);
    });
  }
}

void score_keys(Context& context, float scale, std::span<const KeyScoreJob> jobs) {
  context.begin();
  std::vector<std::span<const std::byte>> tables;  // the pages of all jobs, then their slots
  for (const KeyScoreJob& job : jobs) {
    check_on_device(*job.set);
    tables.push_back(std::as_bytes(job.set->page_indices()));
  }
  for (const KeyScoreJob& job : jobs) tables.push_back(std::as_bytes(job.slots));
  std::vector<const std::byte*> at = {context.upload_pieces(tables)};
  for (const auto& table : tables) at.push_back(at.back() + table.size());
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
    with_type(dtype, [&](auto type) {
      std::vector<PagedKeys<decltype(type)>> rows;
      for (std::size_t i = 0; i < jobs.size(); ++i) {
        const KeyScoreJob& job = jobs[i];
        if (job.set->layout().dtype != dtype) continue;
        rows.push_back({{job.q, job.out},
                        PageTable::of(*job.set, reinterpret_cast<const std::uint32_t*>(at[i])),
                        job.slots.empty()
                            ? nullptr
                            : reinterpret_cast<const std::int32_t*>(at[jobs.size() + i])});
      }
      score_all_rows(context, scale, rows);
    });
  }
}

void score_codes(Context& context, float scale, std::span<const CodeScoreJob> jobs) {
  context.begin();
  std::vector<FloatRows> parts;  // of the tables
  std::vector<CodedKeys> keys;
  std::int64_t n = 0;
  for (const CodeScoreJob& job : jobs) {
    if (job.out.columns == 0) continue;
    const std::int64_t heads = job.q.rows, all = job.centroids.rows, count = all / job.parts,
                       dim = job.centroids.columns;
    auto* table = context.scratch<float>(all * heads);
    for (int i = 0; i < job.parts; ++i) {
      const MatrixView<const float> centroids = job.centroids.rows_at(i * count, count);
      ScoredHeads scored(job.q.columns_at(i * dim, dim),
                         MatrixView<float>(table + i * count * heads, heads, count));
      scored.by_head = 1;
      scored.by_row = heads;
      parts.push_back({scored, centroids.data, centroids.stride});
    }
    keys.push_back({table, job.codes, job.code_stride, static_cast<int>(heads), job.parts,
                    static_cast<int>(count), static_cast<int>(job.out.columns), job.out.data,
                    job.out.stride});
    n = std::max(n, job.out.columns);
  }
  score_all_rows(context, scale, parts);
  context.launch(score_coded_keys, choice_grid(n, kChoiceThreads, keys.size()), kChoiceThreads, 0,
                 context.upload(keys));
}

void score_dimensions(Context& context, float scale, std::span<const DimensionScoreJob> jobs) {
  context.begin();
  std::vector<std::span<const std::byte>> lists;  // the dimensions and factors of all jobs
  for (const DimensionScoreJob& job : jobs) {
    lists.push_back(std::as_bytes(job.dims));
    lists.push_back(std::as_bytes(job.factors));
  }
  const std::byte* at = context.upload_pieces(lists);
  std::vector<KeyColumns> columns;
  std::size_t shared = 0;
  std::int64_t n = 0;
  for (const DimensionScoreJob& job : jobs) {
    const auto* dims = reinterpret_cast<const int*>(at);
    at += job.dims.size_bytes();
    const auto* factors = reinterpret_cast<const float*>(at);
    at += job.factors.size_bytes();
    columns.push_back({{job.q, job.out},
                       dims,
                       static_cast<int>(job.dims.size()),
                       job.factors.empty() ? nullptr : factors,
                       job.columns,
                       job.column_stride,
                       job.dtype});
    shared =
        std::max(shared, sizeof(float) * static_cast<std::size_t>(job.q.rows) * job.dims.size());
    n = std::max(n, job.out.columns);
  }
  context.launch(score_columns, choice_grid(n, kChoiceThreads, columns.size()), kChoiceThreads,
                 shared, context.upload(columns), scale);
}

}  // namespace turnbench::cuda
