#include "inference/cuda/linear.h"

#include <algorithm>

#include "inference/cuda/vector.h"

namespace turnbench::cuda {
namespace {

// Few rows: the time is bound by reading the weights.  A warp computes kOutputs outputs of all
// rows: at each step its lanes load 16 consecutive bytes each of every output's weights, some steps
// before they are used, and multiply them with rows of x that the block's warps share.  A lane sums
// its elements in ascending order, then the lanes' sums are added in a tree: the order depends only
// on the width.

constexpr int kLinearThreads = 256, kLinearWarps = kLinearThreads / kWarp;
constexpr std::size_t kMaxShared = std::size_t{200} << 10;  // shared memory of a block for x

template <typename T>
constexpr int kPerLane = 16 / sizeof(T);
template <typename T>
constexpr int kPerStep = kWarp * 16 / sizeof(T);

/// Partition of a kernel for a number of rows: with more rows, each load of x must serve more
/// outputs, so that shared memory does not become the bottleneck, and fewer blocks fit on a
/// multiprocessor.
struct Cut {
  int outputs, ahead, blocks;
};
constexpr Cut cut_for(int rows, bool aligned) {
  if (!aligned) return {4, 1, 1};
  if (rows <= 2) return {2, 4, 3};
  if (rows <= 4) return {4, 2, 2};
  return {4, 3, 1};
}

struct FewRows {
  const float* x;
  std::size_t ldx;
  int rows, out, in;
  int steps, chunk;  // of a row, and of the part of x in shared memory: multiples of `ahead`
  const std::byte* weights;
  const float* bias;
  float* y;
  std::size_t ldy;
};

/// The weights of one output that a lane loads per step, as raw bits.
using Bits = Vector<std::uint32_t, 4>;

/// Elements [i, ...) of a row, zeros past the end.
template <bool kAligned, typename T>
__device__ Bits load_weights(const T* row, int i, int in) {
  if constexpr (kAligned) {
    if (i < in) return load_vector<4>(reinterpret_cast<const std::uint32_t*>(row + i));
    return {};
  } else {
    T elements[kPerLane<T>];
    for (int j = 0; j < kPerLane<T>; ++j) elements[j] = i + j < in ? row[i + j] : from_float<T>(0);
    Bits out;
    memcpy(&out, elements, sizeof(out));
    return out;
  }
}

template <typename T>
__device__ void widen(const Bits& bits, float (&out)[kPerLane<T>]) {
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    constexpr int kPerWord = 4 / sizeof(T);
    T elements[kPerWord];
    memcpy(elements, &bits.at[i], 4);
#pragma unroll
    for (int j = 0; j < kPerWord; ++j) out[i * kPerWord + j] = to_float(elements[j]);
  }
}

/// Copies columns of steps [begin, end) of x to shared memory, [step][kRows][kPerLane /
/// 4][lane][4], so that the lanes' loads of four floats are contiguous.  Zeros beyond the end of x.
template <typename T, int kRows>
__device__ void stage(const FewRows& p, int begin, int end, float* shared) {
  const int count = (end - begin) * kPerStep<T>;
  for (int e = static_cast<int>(threadIdx.x); e < count; e += kLinearThreads) {
    const int step = e / kPerStep<T>, lane = e % kPerStep<T> / kPerLane<T>, j = e % kPerLane<T>;
    const int i = begin * kPerStep<T> + e;
    float* to = shared + step * kRows * kPerStep<T> + j / 4 * (kWarp * 4) + lane * 4 + j % 4;
    for (int r = 0; r < kRows; ++r) {
      to[r * kPerStep<T>] =
          r < p.rows && i < p.in ? p.x[static_cast<std::size_t>(r) * p.ldx + i] : 0.0f;
    }
  }
}

/// The products of a lane's weights for kOutputs outputs with its elements of kRows rows.
template <typename T, int kOutputs, int kRows>
__device__ void multiply_step(const Bits (&w)[kOutputs], const float* x,
                              float (&sum)[kOutputs][kRows]) {
  float weight[kOutputs][kPerLane<T>];
#pragma unroll
  for (int o = 0; o < kOutputs; ++o) widen<T>(w[o], weight[o]);
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
#pragma unroll
    for (int first = 0; first < kPerLane<T>; first += 4) {
      const auto values = load_vector<4>(x + r * kPerStep<T> + first * kWarp);
#pragma unroll
      for (int o = 0; o < kOutputs; ++o) {
#pragma unroll
        for (int j = 0; j < 4; ++j) sum[o][r] = fmaf(weight[o][first + j], values.at[j], sum[o][r]);
      }
    }
  }
}

/// The weights that a warp loads ahead of their use: step by step for kOutputs outputs, then for
/// the outputs one grid size further on.
template <typename T, int kOutputs, int kAhead, bool kAligned>
struct WeightStream {
  const FewRows& p;
  const T* row[kOutputs];  ///< begin of each output's weights
  int first_output;        ///< of the block
  int step = 0;
  Bits bits[kAhead][kOutputs];  ///< loaded by the lane, by step and output

  __device__ WeightStream(const FewRows& problem, int first) : p(problem), first_output(first) {
    find_rows();
  }
  __device__ void find_rows() {
#pragma unroll
    for (int o = 0; o < kOutputs; ++o) {  // beyond the end: any existing output
      const int warp = static_cast<int>(threadIdx.x) / kWarp;
      const int output = min(first_output + warp * kOutputs + o, p.out - 1);
      row[o] = reinterpret_cast<const T*>(p.weights) + static_cast<std::size_t>(output) * p.in;
    }
  }
  /// Starts loading step `step` + a.
  __device__ void load(int a) {
    const int lane = static_cast<int>(threadIdx.x) % kWarp;
    const int in = first_output < p.out ? p.in : 0;
#pragma unroll
    for (int o = 0; o < kOutputs; ++o) {
      bits[a][o] =
          load_weights<kAligned>(row[o], (step + a) * kPerStep<T> + lane * kPerLane<T>, in);
    }
  }
  /// Advances by kAhead steps; after the last step to the outputs `stride` further on.
  __device__ void advance(int stride) {
    step += kAhead;
    if (step < p.steps) return;
    step = 0;
    first_output += stride;
    find_rows();
  }
};

/// A block computes kLinearWarps * kOutputs outputs at a time, then those one grid size further on.
template <typename T, int kRows, bool kAligned>
__global__ void __launch_bounds__(kLinearThreads, cut_for(kRows, kAligned).blocks)
    few_rows(FewRows p) {
  constexpr int kOutputs = cut_for(kRows, kAligned).outputs;
  constexpr int kAhead = cut_for(kRows, kAligned).ahead;
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int block_outputs = kLinearWarps * kOutputs;
  const int stride = static_cast<int>(gridDim.x) * block_outputs;
  float* shared = reinterpret_cast<float*>(shared_memory());

  const int first_block = static_cast<int>(blockIdx.x) * block_outputs;
  WeightStream<T, kOutputs, kAhead, kAligned> stream(p, first_block);
#pragma unroll
  for (int a = 0; a < kAhead; ++a) stream.load(a);
  stream.advance(stride);
  bool staged = false;
  for (int block = first_block; block < p.out; block += stride) {
    float sum[kOutputs][kRows] = {};
    for (int begin = 0; begin < p.steps; begin += p.chunk) {
      const int end = min(begin + p.chunk, p.steps);
      if (!staged || p.chunk < p.steps) {
        __syncthreads();
        stage<T, kRows>(p, begin, end, shared);
        __syncthreads();
        staged = true;
      }
      const float* x = shared + lane * 4;
      for (int step = begin; step < end; step += kAhead) {
#pragma unroll
        for (int a = 0; a < kAhead; ++a) {
          multiply_step<T, kOutputs, kRows>(stream.bits[a], x, sum);
          stream.load(a);
          x += kRows * kPerStep<T>;
        }
        stream.advance(stride);
      }
    }
    float mine = 0;  // lane o * kRows + r writes row r of output o
#pragma unroll
    for (int o = 0; o < kOutputs; ++o) {
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        const float total = warp_sum(sum[o][r]);
        if (lane == o * kRows + r) mine = total;
      }
    }
    const int output = block + warp * kOutputs + lane / kRows, r = lane % kRows;
    if (lane < kOutputs * kRows && output < p.out && r < p.rows) {
      p.y[static_cast<std::size_t>(r) * p.ldy + output] =
          p.bias == nullptr ? mine : mine + p.bias[output];
    }
  }
}

template <typename T, int kRows, bool kAligned>
void launch_few_rows(Context& context, FewRows p) {
  constexpr Cut kCut = cut_for(kRows, kAligned);
  constexpr int kRound = kCut.ahead * kPerStep<T>;
  p.steps = (p.in + kRound - 1) / kRound * kCut.ahead;
  const std::size_t max_shared =
      std::min(kMaxShared, static_cast<std::size_t>(context.properties().sharedMemPerBlockOptin));
  const std::size_t step_bytes = kRows * kPerStep<T> * sizeof(float);
  p.chunk =
      std::min(p.steps, static_cast<int>(max_shared / (kCut.ahead * step_bytes)) * kCut.ahead);
  const std::size_t shared = static_cast<std::size_t>(p.chunk) * step_bytes;
  const auto fitting = static_cast<int>(context.properties().sharedMemPerMultiprocessor /
                                        (shared + kReservedShared));
  const int per_block = kLinearWarps * kCut.outputs, pieces = (p.out + per_block - 1) / per_block;
  const int blocks =
      equal_shares(pieces, context.multiprocessors() * std::clamp(fitting, 1, kCut.blocks));
  context.launch(few_rows<T, kRows, kAligned>, dim3(static_cast<unsigned>(blocks)),
                 dim3(kLinearThreads), shared, p);
}

template <typename T>
void run_few_rows(Context& context, const FewRows& p) {
  if (!is_aligned(p.weights, 16) || static_cast<std::size_t>(p.in) * sizeof(T) % 16 != 0) {
    return launch_few_rows<T, 8, false>(context, p);
  }
  if (p.rows == 1) return launch_few_rows<T, 1, true>(context, p);
  if (p.rows == 2) return launch_few_rows<T, 2, true>(context, p);
  if (p.rows <= 4) return launch_few_rows<T, 4, true>(context, p);
  return launch_few_rows<T, 8, true>(context, p);
}

// Many rows: blocks (row, part of its columns), one thread per four elements.

dim3 linear_grid(std::size_t rows, std::size_t width) {
  constexpr std::size_t kPerBlock = kLinearThreads * kQuad;
  return dim3(static_cast<unsigned>(rows),
              static_cast<unsigned>((width + kPerBlock - 1) / kPerBlock));
}

__device__ std::size_t own_quad() {
  return (static_cast<std::size_t>(blockIdx.y) * kLinearThreads + threadIdx.x) * kQuad;
}

/// out [rows, width] = x rounded to T.
template <typename T, bool kAligned>
__global__ void round_rows(const float* x, std::size_t ldx, std::size_t width, T* out) {
  const std::size_t i = own_quad();
  if (i >= width) return;
  const auto values = load_quad<kAligned>(x + blockIdx.x * ldx, i, width);
  store_quad<kAligned>(out + blockIdx.x * width, i, width, values);
}

template <bool kAligned>
__global__ void add_bias(float* y, std::size_t ldy, std::size_t width, const float* bias) {
  const std::size_t i = own_quad();
  if (i >= width) return;
  float* row = y + blockIdx.x * ldy;
  auto values = load_quad<kAligned>(row, i, width);
  const auto b = load_quad<kAligned>(bias, i, width);
  for (int j = 0; j < kQuad; ++j) values.at[j] += b.at[j];
  store_quad<kAligned>(row, i, width, values);
}

/// Computes all rows, a few at a time.
void linear_by_few_rows(Context& context, MatrixView<const float> x, const Weights& w,
                        const float* bias, MatrixView<float> y) {
  for (std::int64_t first = 0; first < x.rows; first += kFewRows) {
    FewRows p = {};
    p.x = x.row(first);
    p.ldx = x.stride;
    p.rows = static_cast<int>(std::min(kFewRows, x.rows - first));
    p.out = static_cast<int>(w.out);
    p.in = static_cast<int>(w.in);
    p.weights = w.data;
    p.bias = bias;
    p.y = y.row(first);
    p.ldy = y.stride;
    with_type(w.dtype, [&](auto type) { run_few_rows<decltype(type)>(context, p); });
  }
}

/// Computes the product without bias; returns false if the library has no algorithm.
bool linear_by_library(Context& context, Gemm& gemm, MatrixView<const float> x, const Weights& w,
                       MatrixView<float> y) {
  bool done = false;
  with_type(w.dtype, [&](auto type) {
    using T = decltype(type);
    const T* rows = nullptr;
    std::int64_t stride = w.in;
    if constexpr (std::is_same_v<T, float>) {
      rows = x.data;
      stride = x.stride;
    } else {
      T* rounded = context.scratch<T>(x.rows * w.in);
      context.launch(by_quads(x) ? round_rows<T, true> : round_rows<T, false>,
                     linear_grid(x.rows, w.in), dim3(kLinearThreads), 0, x.data, x.stride, w.in,
                     rounded);
      rows = rounded;
    }
    done = gemm.run(context, w.dtype, rows, x.rows, stride, w.data, w.out, w.in, y.data, y.stride);
  });
  return done;
}

}  // namespace

int equal_shares(int pieces, int resident) {
  const int rounds = (pieces + resident - 1) / resident;
  return (pieces + rounds - 1) / rounds;
}

void linear(Context& context, Gemm& gemm, MatrixView<const float> x, const Weights& w,
            const float* bias, MatrixView<float> y) {
  context.begin();
  if (x.rows == 0 || w.out == 0) return;
  if (x.rows <= kFewRows || !linear_by_library(context, gemm, x, w, y))
    return linear_by_few_rows(context, x, w, bias, y);
  if (bias == nullptr) return;
  const bool aligned = by_quads(y) && by_quads(bias);
  context.launch(aligned ? add_bias<true> : add_bias<false>, linear_grid(y.rows, w.out),
                 dim3(kLinearThreads), 0, y.data, y.stride, w.out, bias);
}

}  // namespace turnbench::cuda
