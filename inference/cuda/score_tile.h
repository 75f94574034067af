#pragma once

// Scores of 64 queries and a tile of keys, computed from shared memory by a block of 256 threads,
// for the kernels of the statistics.  Two classes with the same interface: FloatScores and
// TensorScores.
//   shared_bytes(head_dim)  bytes of shared memory that it needs
//   kMaxHeadDim             the largest head_dim
//   kKeys                   keys per tile
//   kRowsPerThread, kKeysPerThread
//                           the scores of a thread: at(i, j) is that of row(i) and key(j) of the
//                           tile
//   kThreadsPerRow, part()  the threads that have a row's scores; this one is number part() of them
//   load_keys(set, first)   starts loading keys [first, first + kKeys) of a set, zeros beyond its
//                           end
//   load_queries(q, stride, rows)
//                           loads rows of float32 queries, 16-byte aligned, into registers, zeros
//                           for further rows
//   store_queries(rounded)  writes them to shared memory, `rounded` to the keys' type or not; see
//                           statistics.h.  TensorScores always rounds
//   wait_for_keys()         waits for this thread's loads; compute() needs a barrier after it
//   compute()               computes the scores
//   store(row, x)           row[key(j)] = x[j]
//   exp(x)                  e^x with the accuracy of the scores

#include <type_traits>

#include "common/error.h"
#include "inference/cuda/float_math.h"

namespace turnbench::cuda {

constexpr int kScoreThreads = 256, kScoreRows = 64, kScoreWarps = kScoreThreads / kWarp;

/// min(a, b) by value: device code cannot take references to constants of the host.
__device__ constexpr int smaller(int a, int b) {
  return a < b ? a : b;
}

/// Elements that are loaded and stored at once.
template <typename T, int kCount = 4>
struct alignas(kCount * sizeof(T)) Pack {
  T x[kCount];
};

template <typename T>
__device__ Pack<float> load_wide(const T* from) {
  const auto four = *reinterpret_cast<const Pack<T>*>(from);
  return {{to_float(four.x[0]), to_float(four.x[1]), to_float(four.x[2]), to_float(four.x[3])}};
}

/// 64 rows in registers, between global and shared memory.  A thread has rows warp + 8 i, and of
/// each row the 4 elements from 4 lane on; for rows longer than 128, also those 128 further on.
template <int kMaxHeadDim>
class RowsInFlight {
 public:
  /// Loads rows [0, count) of `width` elements, zeros for others.  row_of(r): the address of row r.
  template <typename RowOf>
  __device__ void load(int count, int width, const RowOf& row_of) {
    each([&](int i, int r, int d) {
      x_[i] = r < count && d < width ? load_wide(row_of(r) + d) : Pack<float>{};
    });
  }
  /// Calls put(r, d, elements [d, d + 4) of row r).
  template <typename Put>
  __device__ void store(int width, const Put& put) const {
    each([&](int i, int r, int d) {
      if (d < width) put(r, d, x_[i]);
    });
  }

 private:
  static constexpr int kPieces = kMaxHeadDim / 128;

  template <typename Body>
  __device__ static void each(const Body& body) {
    const int warp = static_cast<int>(threadIdx.x) / kWarp,
              lane = static_cast<int>(threadIdx.x) % kWarp;
#pragma unroll
    for (int i = 0; i < kScoreRows / kScoreWarps * kPieces; ++i)
      body(i, warp + i / kPieces * kScoreWarps, 4 * lane + i % kPieces * 128);
  }

  Pack<float> x_[kScoreRows / kScoreWarps * kPieces];
};

/// Scores by float32 multiply-adds in the order of head_dim, a multiple of 4; they have the CPU's
/// bits.  Thread (ty, tx) of 16 x 16 has rows ty + 16 i and keys tx + 16 j.  Shared memory,
/// float32: keys [64][pitch], queries [64][pitch].  The pitch is an odd number of 16-byte units, so
/// that the rows that 8 lanes read are in different banks.
template <typename T, int kHeadDimLimit>
class FloatScores {
 public:
  static constexpr int kMaxHeadDim = kHeadDimLimit, kKeys = 64, kRowsPerThread = 4,
                       kKeysPerThread = 4, kThreadsPerRow = 16;

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
  __device__ static float exp(float x) { return exp_of(x); }

  __device__ void load_keys(const SetView& set, int first) {
    RowsInFlight<kMaxHeadDim> rows;
    rows.load(set.size - first, head_dim_, [&](int r) { return set.key<T>(first + r); });
    store_rows(rows, keys_, [](float x) { return x; });
  }
  __device__ void load_queries(const float* q, std::size_t stride, int rows) {
    next_.load(rows, head_dim_, [&](int r) { return q + static_cast<std::size_t>(r) * stride; });
  }
  __device__ void store_queries(bool rounded) {
    store_rows(next_, queries_, [=](float x) { return rounded ? to_float(from_float<T>(x)) : x; });
  }
  __device__ void wait_for_keys() const {}

  __device__ void compute() {
    const float* q = queries_ + row(0) * pitch_;
    const float* k = keys_ + key(0) * pitch_;
#pragma unroll
    for (int i = 0; i < kRowsPerThread; ++i) {
#pragma unroll
      for (int j = 0; j < kKeysPerThread; ++j) scores_[i][j] = 0;
    }
    for (int d = 0; d < head_dim_; d += 4) {
      Pack<float> a[kRowsPerThread], b[kKeysPerThread];
#pragma unroll
      for (int i = 0; i < kRowsPerThread; ++i) a[i] = load_wide(q + 16 * i * pitch_ + d);
#pragma unroll
      for (int j = 0; j < kKeysPerThread; ++j) b[j] = load_wide(k + 16 * j * pitch_ + d);
#pragma unroll
      for (int e = 0; e < 4; ++e) {
#pragma unroll
        for (int i = 0; i < kRowsPerThread; ++i) {
#pragma unroll
          for (int j = 0; j < kKeysPerThread; ++j)
            scores_[i][j] = fmaf(a[i].x[e], b[j].x[e], scores_[i][j]);
        }
      }
    }
  }

  __device__ void store(float* to, const float (&x)[kKeysPerThread]) const {
#pragma unroll
    for (int j = 0; j < kKeysPerThread; ++j) to[key(j)] = x[j];
  }

 private:
  __host__ __device__ static constexpr int pitch_of(int head_dim) {
    return head_dim / 4 % 2 == 0 ? head_dim + 4 : head_dim;
  }
  /// as_stored(x): the stored value of an element.
  template <typename AsStored>
  __device__ void store_rows(const RowsInFlight<kMaxHeadDim>& rows, float* to,
                             const AsStored& as_stored) const {
    rows.store(head_dim_, [&](int r, int d, const Pack<float>& x) {
      *reinterpret_cast<Pack<float>*>(to + r * pitch_ + d) = {
          {as_stored(x.x[0]), as_stored(x.x[1]), as_stored(x.x[2]), as_stored(x.x[3])}};
    });
  }

  int head_dim_, pitch_;
  float *keys_, *queries_;
  float scores_[kRowsPerThread][kKeysPerThread];
  RowsInFlight<kMaxHeadDim> next_;
};

/// Scores by tensor cores, for 16-bit keys and a head_dim that is a multiple of 16, of queries
/// rounded to T: their products are exact, the sums float32.  Warp w has 16 rows from 16 (w % 4) on
/// and half w / 4 of the keys, in the layout of `mma`.  Shared memory: keys [kKeys][pitch], queries
/// [64][pitch].  The pitch is an odd number of 16-byte units, so that the 8 rows of a matrix are in
/// different banks.
template <typename T, int kHeadDimLimit>
class TensorScores {
 public:
  // The shared memory of two blocks fits a multiprocessor up to a head_dim of 128.
  static constexpr int kMaxHeadDim = kHeadDimLimit, kKeys = kMaxHeadDim <= 128 ? 128 : 64,
                       kRowsPerThread = 2, kKeysPerThread = kKeys / 8, kThreadsPerRow = 8;

  __host__ __device__ static constexpr std::size_t shared_bytes(int head_dim) {
    return (kKeys + kScoreRows) * static_cast<std::size_t>(pitch_of(head_dim)) * sizeof(T);
  }

  __device__ TensorScores(std::byte* shared, int head_dim)
      : head_dim_(head_dim),
        pitch_(pitch_of(head_dim)),
        keys_(reinterpret_cast<T*>(shared)),
        queries_(keys_ + kKeys * pitch_) {}

  __device__ int row(int i) const { return first_row() + lane() / 4 + 8 * i; }
  __device__ int key(int j) const { return first_key() + 8 * (j / 2) + 2 * (lane() % 4) + j % 2; }
  __device__ int part() const { return warp() / 4 * 4 + lane() % 4; }
  __device__ float at(int i, int j) const { return scores_[j / 2][2 * i + j % 2]; }
  __device__ static float exp(float x) { return __expf(x); }

  __device__ void load_keys(const SetView& set, int first) {
    constexpr int kPieces = kMaxHeadDim / 8,
                  kStep = kScoreThreads / kPieces;  // of 16 bytes; rows at once
    const int d = static_cast<int>(threadIdx.x) % kPieces * 8;
    for (int r = static_cast<int>(threadIdx.x) / kPieces; r < kKeys && d < head_dim_; r += kStep) {
      const bool valid = first + r < set.size;
      copy_async(keys_ + r * pitch_ + d, set.key<T>(valid ? first + r : first) + d, valid);
    }
    commit_copies();
  }
  __device__ void load_queries(const float* q, std::size_t stride, int rows) {
    next_.load(rows, head_dim_, [&](int r) { return q + static_cast<std::size_t>(r) * stride; });
  }
  __device__ void store_queries(bool) {
    next_.store(head_dim_, [&](int r, int d, const Pack<float>& x) {
      Pack<T> out;
#pragma unroll
      for (int e = 0; e < 4; ++e) out.x[e] = from_float<T>(x.x[e]);
      *reinterpret_cast<Pack<T>*>(queries_ + r * pitch_ + d) = out;
    });
  }
  __device__ void wait_for_keys() const {
    wait_for_copies<0>();
  }

  __device__ void compute() {
#pragma unroll
    for (int n = 0; n < kKeysPerThread / 2; ++n) {
#pragma unroll
      for (int e = 0; e < 4; ++e) scores_[n][e] = 0;
    }
    // Of queries, matrices 0 and 1 are the rows' halves, 2 and 3 the same 8 dimensions on; of keys,
    // 0 and 1 the halves of 16 dimensions, 2 and 3 the same of the next 8 keys.
    const int matrix = lane() / 8, line = lane() % 8;
    const int q_at = (first_row() + matrix % 2 * 8 + line) * pitch_ + matrix / 2 * 8;
    const T* k = keys_ + (first_key() + matrix / 2 * 8 + line) * pitch_ + matrix % 2 * 8;
    for (int d = 0; d < head_dim_; d += 16) {
      std::uint32_t a[4];
      load_matrices(a, queries_ + q_at + d);
#pragma unroll
      for (int n = 0; n < kKeysPerThread / 2; n += 2) {
        std::uint32_t b[4];
        load_matrices(b, k + 8 * n * pitch_ + d);
        const std::uint32_t even[2] = {b[0], b[1]}, odd[2] = {b[2], b[3]};
        mma(scores_[n], a, even, T{});
        mma(scores_[n + 1], a, odd, T{});
      }
    }
  }

  __device__ void store(float* to, const float (&x)[kKeysPerThread]) const {
#pragma unroll
    for (int j = 0; j < kKeysPerThread; j += 2)
      *reinterpret_cast<Pack<float, 2>*>(to + key(j)) = {{x[j], x[j + 1]}};
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
  T *keys_, *queries_;
  float scores_[kKeysPerThread / 2][4];
  RowsInFlight<kMaxHeadDim> next_;
};

/// Calls body(std::type_identity<Scores>()) with the FloatScores for keys of `dtype`.
/// @throws Error (runtime) for unsupported head_dim.
template <typename Body>
void with_float_scores(DType dtype, int head_dim, const Body& body) {
  if (head_dim % 4 != 0 || head_dim > 256) {
    throw runtime_error(
        "CUDA, attention statistics: head_dim is {}, expected a multiple of 4 up to 256", head_dim);
  }
  with_type(dtype, [&]<typename T>(T) {
    if (head_dim <= 128) {
      body(std::type_identity<FloatScores<T, 128>>());
    } else {
      body(std::type_identity<FloatScores<T, 256>>());
    }
  });
}

/// The same with TensorScores if they support dtype and head_dim, and queries are `rounded`.
template <typename Body>
void with_scores(DType dtype, int head_dim, bool rounded, const Body& body) {
  if (dtype == DType::kF32 || !rounded || head_dim % 16 != 0 || head_dim > 256)
    return with_float_scores(dtype, head_dim, body);
  with_type(dtype, [&]<typename T>(T) {
    if constexpr (!std::is_same_v<T, float>) {
      if (head_dim <= 128) {
        body(std::type_identity<TensorScores<T, 128>>());
      } else {
        body(std::type_identity<TensorScores<T, 256>>());
      }
    }
  });
}

}  // namespace turnbench::cuda
