#include "inference/cuda/elementwise.h"

#include "inference/cuda/vector.h"

namespace turnbench::cuda {
namespace {

// All of these kernels are memory-bound: a thread processes four consecutive floats, a warp 512
// bytes.

constexpr int kRowThreads = 256, kRowWarps = kRowThreads / kWarp;
constexpr std::size_t kPerBlock = kRowThreads * kQuad;

/// Blocks (row, part of its columns).
dim3 row_grid(std::size_t rows, std::size_t width) {
  return dim3(static_cast<unsigned>(rows),
              static_cast<unsigned>((width + kPerBlock - 1) / kPerBlock));
}

/// One block per row: each thread sums its squares, then lanes and then warps are summed.
template <bool kAligned>
__global__ void rms_norm_row(const float* x, std::size_t ldx, std::size_t width,
                             const float* weight, float eps, float* out, std::size_t ldo) {
  float* of_warps = reinterpret_cast<float*>(shared_memory());  // [kRowWarps]
  x += blockIdx.x * ldx;
  out += blockIdx.x * ldo;
  float squares = 0;
  for (std::size_t i = threadIdx.x * kQuad; i < width; i += kPerBlock) {
    const auto v = load_quad<kAligned>(x, i, width);
    for (int j = 0; j < kQuad; ++j) squares = fmaf(v.at[j], v.at[j], squares);
  }
  squares = warp_sum(squares);
  if (threadIdx.x % kWarp == 0) of_warps[threadIdx.x / kWarp] = squares;
  __syncthreads();
  float sum = 0;
  for (int w = 0; w < kRowWarps; ++w) sum += of_warps[w];
  const float scale = 1.0f / sqrtf(sum / static_cast<float>(width) + eps);
  for (std::size_t i = threadIdx.x * kQuad; i < width; i += kPerBlock) {
    auto v = load_quad<kAligned>(x, i, width);
    const auto w = load_quad<kAligned>(weight, i, width);
    for (int j = 0; j < kQuad; ++j) v.at[j] = v.at[j] * scale * w.at[j];
    store_quad<kAligned>(out, i, width, v);
  }
}

/// Blocks (row, part of its heads), one warp per head.  Up to a head_dim of 128, the sums are
/// bit-identical to those of rms_norm_row.
template <bool kAligned>
__global__ void __launch_bounds__(kRowThreads)
    rms_norm_each_head(float* x, std::size_t ldx, int all, std::size_t head_dim, int heads,
                       const float* weight, const float* other_weight, float eps) {
  const int h = static_cast<int>(blockIdx.y) * kRowWarps + static_cast<int>(threadIdx.x) / kWarp;
  if (h >= all) return;
  x += blockIdx.x * ldx + static_cast<std::size_t>(h) * head_dim;
  if (h >= heads) weight = other_weight;
  const std::size_t first = threadIdx.x % kWarp * kQuad, step = kWarp * kQuad;
  float squares = 0;
  for (std::size_t i = first; i < head_dim; i += step) {
    const auto v = load_quad<kAligned>(x, i, head_dim);
    for (int j = 0; j < kQuad; ++j) squares = fmaf(v.at[j], v.at[j], squares);
  }
  const float scale = 1.0f / sqrtf(warp_sum(squares) / static_cast<float>(head_dim) + eps);
  for (std::size_t i = first; i < head_dim; i += step) {
    auto v = load_quad<kAligned>(x, i, head_dim);
    const auto w = load_quad<kAligned>(weight, i, head_dim);
    for (int j = 0; j < kQuad; ++j) v.at[j] = v.at[j] * scale * w.at[j];
    store_quad<kAligned>(x, i, head_dim, v);
  }
}

/// One block per row, one warp per head, one lane per pair.
__global__ void rotate_row(float* x, std::size_t ldx, int heads, int half, const float* cos,
                           std::size_t ld_cos, const float* sin, std::size_t ld_sin) {
  x += blockIdx.x * ldx;
  cos += blockIdx.x * ld_cos;
  sin += blockIdx.x * ld_sin;
  for (int h = static_cast<int>(threadIdx.x) / kWarp; h < heads; h += kRowWarps) {
    float* head = x + static_cast<std::size_t>(h) * 2 * half;
    for (int i = static_cast<int>(threadIdx.x) % kWarp; i < half; i += kWarp) {
      const float a = head[i], b = head[half + i];
      head[i] = a * cos[i] - b * sin[i];
      head[half + i] = b * cos[i] + a * sin[i];
    }
  }
}

template <bool kAligned>
__global__ void silu_multiply_rows(const float* gate_up, std::size_t ld, std::size_t width,
                                   float* out, std::size_t ldo) {
  const std::size_t i = blockIdx.y * kPerBlock + threadIdx.x * kQuad;
  if (i >= width) return;
  const float* row = gate_up + blockIdx.x * ld;
  const auto gate = load_quad<kAligned>(row, i, width);
  auto result = load_quad<kAligned>(row + width, i, width);
  for (int j = 0; j < kQuad; ++j) {
    const float x = gate.at[j], e = expf(-fabsf(x));  // never overflows
    result.at[j] *= x * ((x < 0 ? e : 1.0f) / (1.0f + e));
  }
  store_quad<kAligned>(out + blockIdx.x * ldo, i, width, result);
}

template <bool kAligned>
__global__ void add_all(float* x, const float* y, std::size_t n) {
  const std::size_t i = blockIdx.x * kPerBlock + threadIdx.x * kQuad;
  if (i >= n) return;
  if (kAligned && i + kQuad <= n) {
    auto sum = load_vector<kQuad>(x + i);
    const auto more = load_vector<kQuad>(y + i);
    for (int j = 0; j < kQuad; ++j) sum.at[j] += more.at[j];
    store_quad<true>(x, i, n, sum);
  } else {
    for (std::size_t at = i; at < i + kQuad && at < n; ++at) x[at] += y[at];
  }
}

/// Blocks (token, part of its row).
template <typename T>
__global__ void embed_tokens(const T* table, std::size_t width, const int* tokens, float* out) {
  const T* row = table + static_cast<std::size_t>(tokens[blockIdx.x]) * width;
  const std::size_t end = min(width, (blockIdx.y + 1) * kPerBlock);
  for (std::size_t i = blockIdx.y * kPerBlock + threadIdx.x; i < end; i += kRowThreads) {
    out[blockIdx.x * width + i] = to_float(row[i]);
  }
}

}  // namespace

void rms_norm(Context& context, MatrixView<const float> x, const float* weight, float eps,
              MatrixView<float> out) {
  context.begin();
  const bool aligned = by_quads(x) && by_quads(out) && by_quads(weight);
  context.launch(aligned ? rms_norm_row<true> : rms_norm_row<false>,
                 dim3(static_cast<unsigned>(x.rows)), dim3(kRowThreads), kRowWarps * sizeof(float),
                 x.data, x.stride, x.columns, weight, eps, out.data, out.stride);
}

void rms_norm_heads(Context& context, MatrixView<float> x, int head_dim, int heads,
                    const float* weight, const float* other_weight, float eps) {
  context.begin();
  const auto all = static_cast<int>(x.columns / head_dim);
  const bool aligned =
      by_quads(x) && by_quads(weight) && by_quads(other_weight) && head_dim % kQuad == 0;
  context.launch(
      aligned ? rms_norm_each_head<true> : rms_norm_each_head<false>,
      dim3(static_cast<unsigned>(x.rows), static_cast<unsigned>((all + kRowWarps - 1) / kRowWarps)),
      dim3(kRowThreads), 0, x.data, x.stride, all, head_dim, heads, weight, other_weight, eps);
}

void apply_rope(Context& context, MatrixView<float> x, MatrixView<const float> cos,
                MatrixView<const float> sin) {
  context.begin();
  context.launch(rotate_row, dim3(static_cast<unsigned>(x.rows)), dim3(kRowThreads), 0, x.data,
                 x.stride, x.columns / (2 * cos.columns), cos.columns, cos.data, cos.stride,
                 sin.data, sin.stride);
}

void silu_multiply(Context& context, MatrixView<const float> gate_up, MatrixView<float> out) {
  context.begin();
  const bool aligned = by_quads(gate_up) && by_quads(out);
  context.launch(aligned ? silu_multiply_rows<true> : silu_multiply_rows<false>,
                 row_grid(out.rows, out.columns), dim3(kRowThreads), 0, gate_up.data,
                 gate_up.stride, out.columns, out.data, out.stride);
}

void add(Context& context, float* x, const float* y, std::int64_t n) {
  context.begin();
  const bool aligned = by_quads(x) && by_quads(y);
  context.launch(aligned ? add_all<true> : add_all<false>,
                 dim3(static_cast<unsigned>((n + kPerBlock - 1) / kPerBlock)), dim3(kRowThreads), 0,
                 x, y, n);
}

void copy_rows(Context& context, MatrixView<const float> from, MatrixView<float> to) {
  context.begin();
  if (from.rows == 0 || from.columns == 0) return;
  check(cudaMemcpy2DAsync(to.data, to.stride * sizeof(float), from.data,
                          from.stride * sizeof(float), from.columns * sizeof(float), from.rows,
                          cudaMemcpyDeviceToDevice, context.stream()),
        "copying rows");
}

void embed(Context& context, const Weights& table, std::span<const int> tokens, float* out) {
  context.begin();
  const int* ids = context.upload(tokens);
  with_type(table.dtype, [&](auto type) {
    using T = decltype(type);
    context.launch(embed_tokens<T>, row_grid(tokens.size(), table.in), dim3(kRowThreads), 0,
                   reinterpret_cast<const T*>(table.data), table.in, ids, out);
  });
}

}  // namespace turnbench::cuda
