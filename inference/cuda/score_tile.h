#pragma once

// Scores of 64 queries and a tile of keys, computed by a block of 256 threads from shared memory:
// what the statistics' kernels are made of.  Two ways to the same numbers, with one interface:
//   shared_bytes(head_dim)  of shared memory from the given address on
//   kKeys               keys of a tile
//   kRowsEach, kKeysEach  a thread's scores: at(i, j) is that of row(i) and key(j) of the tile
//   kParts, part()      a row's scores lie with kParts threads, of which this is number part()
//   load_keys(set, first)  keys [first, first + kKeys) of a set, zeros behind its end
//   load_queries(q, stride, rows)  rows of float32 queries, 16-byte aligned; zeros behind them
//   wait()              until this thread's loads are done; then a barrier, then compute()

#include "inference/cuda/device.h"

namespace turnbench::cuda {

constexpr int kScoreThreads = 256, kScoreRows = 64;

/// By value: a constant is no variable in device code that one could refer to.
__device__ constexpr int smaller(int a, int b) {
  return a < b ? a : b;
}

/// Four elements that are loaded and stored at once.
template <typename T>
struct alignas(4 * sizeof(T)) Four {
  T x[4];
};

template <typename T>
__device__ Four<float> load_four(const T* from) {
  const auto four = *reinterpret_cast<const Four<T>*>(from);
  return {{to_float(four.x[0]), to_float(four.x[1]), to_float(four.x[2]), to_float(four.x[3])}};
}

/// Float32 multiply-adds in the order of head_dim (a multiple of 4): the CPU's bits.  A thread owns
/// rows ty + 16 i and keys tx + 16 j.  Shared memory: keys [64][pitch], queries [64][pitch], as
/// float32; a pitch of an odd number of 16-byte units spreads the rows that 8 lanes read over all
/// banks.
template <typename T>
class FloatScores {
 public:
  static constexpr int kKeys = 64, kRowsEach = 4, kKeysEach = 4, kParts = 16;

  __host__ __device__ static constexpr std::size_t shared_bytes(int head_dim) {
    return (kKeys + kScoreRows) * static_cast<std::size_t>(pitch_of(head_dim)) * sizeof(float);
  }

  __device__ FloatScores(std::byte* shared, int head_dim)
      : head_dim_(head_dim),
        pitch_(pitch_of(head_dim)),
        keys_(reinterpret_cast<float*>(shared)),
        queries_(keys_ + kKeys * pitch_) {}

  __device__ int row(int i) const { return static_cast<int>(threadIdx.x) / 16 + 16 * i; }
  __device__ int key(int j) const { return static_cast<int>(threadIdx.x) % 16 + 16 * j; }
  __device__ int part() const { return static_cast<int>(threadIdx.x) % 16; }
  __device__ float at(int i, int j) const { return scores_[i][j]; }

  __device__ void load_keys(const SetView& set, int first) {
    load(keys_, set.size - first, [&](int r) { return set.key<T>(first + r); });
  }
  __device__ void load_queries(const float* q, std::size_t stride, int rows) {
    load(queries_, rows, [&](int r) { return q + static_cast<std::size_t>(r) * stride; });
  }
  __device__ void wait() const {}

  __device__ void compute() {
    const float* q = queries_ + row(0) * pitch_;
    const float* k = keys_ + key(0) * pitch_;
#pragma unroll
    for (int i = 0; i < kRowsEach; ++i) {
#pragma unroll
      for (int j = 0; j < kKeysEach; ++j) scores_[i][j] = 0;
    }
    for (int d = 0; d < head_dim_; d += 4) {
      Four<float> a[kRowsEach], b[kKeysEach];
#pragma unroll
      for (int i = 0; i < kRowsEach; ++i) a[i] = load_four(q + 16 * i * pitch_ + d);
#pragma unroll
      for (int j = 0; j < kKeysEach; ++j) b[j] = load_four(k + 16 * j * pitch_ + d);
#pragma unroll
      for (int e = 0; e < 4; ++e) {
#pragma unroll
        for (int i = 0; i < kRowsEach; ++i) {
#pragma unroll
          for (int j = 0; j < kKeysEach; ++j)
            scores_[i][j] = fmaf(a[i].x[e], b[j].x[e], scores_[i][j]);
        }
      }
    }
  }

 private:
  __host__ __device__ static constexpr int pitch_of(int head_dim) {
    return head_dim / 4 % 2 == 0 ? head_dim + 4 : head_dim;
  }

  template <typename RowOf>
  __device__ void load(float* to, int rows, const RowOf& row_of) {
    const int fours = head_dim_ / 4;
    for (int i = static_cast<int>(threadIdx.x); i < 64 * fours; i += kScoreThreads) {
      const int r = i / fours, d = i % fours * 4;
      *reinterpret_cast<Four<float>*>(to + r * pitch_ + d) =
          r < rows ? load_four(row_of(r) + d) : Four<float>{};
    }
  }

  int head_dim_, pitch_;
  float *keys_, *queries_;
  float scores_[kRowsEach][kKeysEach];
};

/// Tensor cores, for 16-bit keys and a head_dim that is a multiple of 16.  A query is split into a
/// 16-bit number and the 16-bit number next to what is missing, and multiplied as their sum.  Warp
/// w owns rows [16 (w % 4), 16) and half w / 4 of the keys, laid out as in `mma`.  Shared memory:
/// keys [kKeys][pitch], queries [64][pitch], the queries' remainders [64][pitch]; a pitch of an odd
/// number of 16-byte units spreads the 8 rows of a matrix over all banks.
template <typename T, int kTileKeys>
class TensorScores {
 public:
  static constexpr int kKeys = kTileKeys, kRowsEach = 2, kKeysEach = kTileKeys / 8, kParts = 8;

  __host__ __device__ static constexpr std::size_t shared_bytes(int head_dim) {
    return (kKeys + 2 * kScoreRows) * static_cast<std::size_t>(pitch_of(head_dim)) * sizeof(T);
  }

  __device__ TensorScores(std::byte* shared, int head_dim)
      : head_dim_(head_dim),
        pitch_(pitch_of(head_dim)),
        keys_(reinterpret_cast<T*>(shared)),
        queries_(keys_ + kKeys * pitch_),
        remainders_(queries_ + kScoreRows * pitch_) {}

  __device__ int row(int i) const { return first_row() + lane() / 4 + 8 * i; }
  __device__ int key(int j) const { return first_key() + 8 * (j / 2) + 2 * (lane() % 4) + j % 2; }
  __device__ int part() const { return warp() / 4 * 4 + lane() % 4; }
  __device__ float at(int i, int j) const { return scores_[j / 2][2 * i + j % 2]; }

  __device__ void load_keys(const SetView& set, int first) {
    const int pieces = head_dim_ / 8;  // of 16 bytes
    for (int i = static_cast<int>(threadIdx.x); i < kKeys * pieces; i += kScoreThreads) {
      const int r = i / pieces, d = i % pieces * 8;
      const bool valid = first + r < set.size;
      copy_async(keys_ + r * pitch_ + d, set.key<T>(valid ? first + r : first) + d, valid);
    }
    commit_copies();
  }
  __device__ void load_queries(const float* q, std::size_t stride, int rows) {
    const int fours = head_dim_ / 4;
    for (int i = static_cast<int>(threadIdx.x); i < kScoreRows * fours; i += kScoreThreads) {
      const int r = i / fours, d = i % fours * 4;
      const auto x =
          r < rows ? load_four(q + static_cast<std::size_t>(r) * stride + d) : Four<float>{};
      Four<T> near, rest;
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        near.x[e] = from_float<T>(x.x[e]);
        rest.x[e] = from_float<T>(x.x[e] - to_float(near.x[e]));
      }
      *reinterpret_cast<Four<T>*>(queries_ + r * pitch_ + d) = near;
      *reinterpret_cast<Four<T>*>(remainders_ + r * pitch_ + d) = rest;
    }
  }
  __device__ void wait() const {
    wait_for_copies<0>();
  }

  __device__ void compute() {
#pragma unroll
    for (int n = 0; n < kKeysEach / 2; ++n) {
#pragma unroll
      for (int e = 0; e < 4; ++e) scores_[n][e] = 0;
    }
    // Of queries, matrices 0 and 1 are the rows' halves, 2 and 3 the same 8 dimensions on; of keys,
    // 0 and 1 the halves of 16 dimensions, 2 and 3 the same of the next 8 keys.
    const int matrix = lane() / 8, line = lane() % 8;
    const int q_at = (first_row() + matrix % 2 * 8 + line) * pitch_ + matrix / 2 * 8;
    const T* k = keys_ + (first_key() + matrix / 2 * 8 + line) * pitch_ + matrix % 2 * 8;
    for (int d = 0; d < head_dim_; d += 16) {
      std::uint32_t near[4], rest[4];
      load_matrices(near, queries_ + q_at + d);
      load_matrices(rest, remainders_ + q_at + d);
#pragma unroll
      for (int n = 0; n < kKeysEach / 2; n += 2) {
        std::uint32_t b[4];
        load_matrices(b, k + 8 * n * pitch_ + d);
        const std::uint32_t even[2] = {b[0], b[1]}, odd[2] = {b[2], b[3]};
        mma(scores_[n], near, even, T{});
        mma(scores_[n + 1], near, odd, T{});
        mma(scores_[n], rest, even, T{});
        mma(scores_[n + 1], rest, odd, T{});
      }
    }
  }

 private:
  __host__ __device__ static constexpr int pitch_of(int head_dim) {
    return head_dim + 8;
  }
  __device__ static int warp() {
    return static_cast<int>(threadIdx.x) / kWarp;
  }
  __device__ static int lane() {
    return static_cast<int>(threadIdx.x) % kWarp;
  }
  __device__ static int first_row() {
    return warp() % 4 * 16;
  }
  __device__ static int first_key() {
    return warp() / 4 * (kKeys / 2);
  }

  int head_dim_, pitch_;
  T *keys_, *queries_, *remainders_;
  float scores_[kKeysEach / 2][4];
};

}  // namespace turnbench::cuda
