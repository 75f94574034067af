#include "inference/cuda/elementwise.h"

#include "inference/cuda/vector.h"

namespace turnbench::cuda {
namespace {

// All of these are bound by memory: a thread takes four consecutive floats, a warp 512 bytes.

constexpr int kThreads = 256, kWarps = kThreads / kWarp;
constexpr std::size_t kPerBlock = kThreads * kQuad;

/// Blocks (row, part of its columns).
dim3 grid_of(std::size_t rows, std::size_t width) {
  return dim3(static_cast<unsigned>(rows),
              static_cast<unsigned>((width + kPerBlock - 1) / kPerBlock));
}

bool by_quads(const float* data, std::size_t ld) {
  return is_aligned(data, sizeof(float) * kQuad) && ld % kQuad == 0;
}

/// A block takes a row: each thread adds up its squares, then the lanes and then the warps add up.
template <bool kAligned>
__global__ void rms_norm_row(const float* x, std::size_t ldx, std::size_t width,
                             const float* weight, float eps, float* out, std::size_t ldo) {
  float* of_warps = reinterpret_cast<float*>(shared_memory());  // [kWarps]
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
  for (int w = 0; w < kWarps; ++w) sum += of_warps[w];
  const float scale = 1.0f / sqrtf(sum / static_cast<float>(width) + eps);
  for (std::size_t i = threadIdx.x * kQuad; i < width; i += kPerBlock) {
    auto v = load_quad<kAligned>(x, i, width);
    const auto w = load_quad<kAligned>(weight, i, width);
    for (int j = 0; j < kQuad; ++j) v.at[j] = v.at[j] * scale * w.at[j];
    store_quad<kAligned>(out, i, width, v);
  }
}

/// A block takes a row, a warp a head, a lane a pair.
__global__ void rotate_row(float* x, std::size_t ldx, int heads, int half, const float* cos,
                           const float* sin) {
  x += blockIdx.x * ldx;
  cos += blockIdx.x * static_cast<std::size_t>(half);
  sin += blockIdx.x * static_cast<std::size_t>(half);
  for (int h = static_cast<int>(threadIdx.x) / kWarp; h < heads; h += kWarps) {
    float* head = x + static_cast<std::size_t>(h) * 2 * half;
    for (int i = static_cast<int>(threadIdx.x) % kWarp; i < half; i += kWarp) {
      const float a = head[i], b = head[half + i];
      head[i] = a * cos[i] - b * sin[i];
      head[half + i] = b * cos[i] + a * sin[i];
    }
  }
}

template <bool kAligned>
__global__ void silu_multiply_rows(const float* gate_up, std::size_t width, float* out) {
  const std::size_t i = blockIdx.y * kPerBlock + threadIdx.x * kQuad;
  if (i >= width) return;
  const float* row = gate_up + blockIdx.x * 2 * width;
  const auto gate = load_quad<kAligned>(row, i, width);
  auto result = load_quad<kAligned>(row + width, i, width);
  for (int j = 0; j < kQuad; ++j) {
    const float x = gate.at[j], e = expf(-fabsf(x));  // never overflows
    result.at[j] *= x * ((x < 0 ? e : 1.0f) / (1.0f + e));
  }
  store_quad<kAligned>(out + blockIdx.x * width, i, width, result);
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
  for (std::size_t i = blockIdx.y * kPerBlock + threadIdx.x; i < end; i += kThreads) {
    out[blockIdx.x * width + i] = to_float(row[i]);
  }
}

}  // namespace

void rms_norm(Context& context, const float* x, std::size_t ldx, std::size_t rows,
              std::size_t width, const float* weight, float eps, float* out, std::size_t ldo) {
  context.begin();
  const bool aligned = by_quads(x, ldx) && by_quads(out, ldo) && by_quads(weight, width);
  context.launch(aligned ? rms_norm_row<true> : rms_norm_row<false>,
                 dim3(static_cast<unsigned>(rows)), dim3(kThreads), kWarps * sizeof(float), x, ldx,
                 width, weight, eps, out, ldo);
}

void rotate(Context& context, float* x, std::size_t ldx, std::size_t rows, int heads, int head_dim,
            const float* cos, const float* sin) {
  context.begin();
  context.launch(rotate_row, dim3(static_cast<unsigned>(rows)), dim3(kThreads), 0, x, ldx, heads,
                 head_dim / 2, cos, sin);
}

void silu_multiply(Context& context, const float* gate_up, std::size_t rows, std::size_t width,
                   float* out) {
  context.begin();
  const bool aligned = by_quads(gate_up, width) && by_quads(out, width);
  context.launch(aligned ? silu_multiply_rows<true> : silu_multiply_rows<false>,
                 grid_of(rows, width), dim3(kThreads), 0, gate_up, width, out);
}

void add(Context& context, float* x, const float* y, std::size_t n) {
  context.begin();
  const bool aligned = by_quads(x, 0) && by_quads(y, 0);
  context.launch(aligned ? add_all<true> : add_all<false>,
                 dim3(static_cast<unsigned>((n + kPerBlock - 1) / kPerBlock)), dim3(kThreads), 0, x,
                 y, n);
}

void copy_rows(Context& context, const float* from, std::size_t ld_from, std::size_t rows,
               std::size_t width, float* to, std::size_t ld_to) {
  context.begin();
  if (rows == 0 || width == 0) return;
  check(cudaMemcpy2DAsync(to, ld_to * sizeof(float), from, ld_from * sizeof(float),
                          width * sizeof(float), rows, cudaMemcpyDeviceToDevice, context.stream()),
        "copying rows");
}

void embed(Context& context, const Weights& table, std::span<const int> tokens, float* out) {
  context.begin();
  const int* ids = context.upload(tokens);
  with_type(table.dtype, [&](auto type) {
    using T = decltype(type);
    context.launch(embed_tokens<T>, grid_of(tokens.size(), table.in), dim3(kThreads), 0,
                   reinterpret_cast<const T*>(table.data), table.in, ids, out);
  });
}

}  // namespace turnbench::cuda
