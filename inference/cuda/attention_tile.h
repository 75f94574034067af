#pragma once

#include "inference/cuda/device.h"

// The steps of FlashAttention for one warp: 16 kM query rows and a tile of 64 16-bit keys and
// values in shared memory, [64, kD] each, swizzled.  Scores and outputs are in registers in the
// accumulator layout of the tensor cores: of each 16 rows, lane l has rows l / 4 and l / 4 + 8; of
// each 8 columns, columns 2 (l % 4) and 2 (l % 4) + 1.

namespace turnbench::cuda {

/// The offset in bytes of a piece of a tile's row; a piece has 16 bytes, 8 elements.  Pieces are
/// exchanged depending on the row, so that the same piece of 8 consecutive rows comes from all
/// banks.
template <int kD>
__device__ int swizzled_offset(int row, int piece) {
  constexpr int kPieces = kD / 8;
  if constexpr (kPieces >= 8) {
    return (row * kPieces + (piece ^ (row % 8))) * 16;
  } else {
    return (row * kPieces + (piece ^ (row / (8 / kPieces) % kPieces))) * 16;
  }
}

/// The offset of the piece that is 16 k elements further in the same row.
__device__ constexpr int advance(int offset, int k) {
  return (offset ^ k % 4 * 32) + k / 4 * 128;  // pieces are exchanged within groups of 8
}
/// The offset that this lane passes to load_matrices for a fragment of 16 x 16 elements.  `down`:
/// the 8 x 8 matrices are ordered by rows first (queries, values); `along`: by columns first
/// (keys).
template <int kD>
__device__ int fragment_offset_down() {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  return swizzled_offset<kD>(lane % 16, lane / 16);
}
template <int kD>
__device__ int fragment_offset_along() {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  return swizzled_offset<kD>(lane / 16 * 8 + lane % 8, lane / 8 % 2);
}

/// Online softmax of a warp's rows: output, row maxima of the scores, and sums relative to the
/// maxima.  Indices are [16 rows][8 columns][element of the lane] and [16 rows][half of the rows].
template <int kD, int kM>
struct SoftmaxState {
  float out[kM][kD / 8][4];
  float max_score[kM][2], sum[kM][2];  ///< sums over the columns of this lane

  __device__ void clear() {
#pragma unroll
    for (int m = 0; m < kM; ++m) {
#pragma unroll
      for (int d = 0; d < kD / 8; ++d) {
#pragma unroll
        for (float& x : out[m][d]) x = 0;
      }
      max_score[m][0] = max_score[m][1] = kMasked;
      sum[m][0] = sum[m][1] = 0;
    }
  }
};

/// scores = queries keys^T for a warp's rows, unscaled.  queries(m, k, a) loads the fragment of
/// rows [16 m, 16 m + 16) and dimensions [16 k, 16 k + 16) into a.  keys: [64, kD].
template <typename T, int kD, int kM, typename Queries>
__device__ void compute_scores(const Queries& queries, const std::byte* keys,
                               float (&scores)[kM][kPageTokens / 8][4]) {
  const int offset = fragment_offset_along<kD>();
#pragma unroll
  for (int m = 0; m < kM; ++m) {
#pragma unroll
    for (int n = 0; n < kPageTokens / 8; ++n) {
#pragma unroll
      for (float& x : scores[m][n]) x = 0;
    }
  }
  // The operands of the next step are loaded while this step is computed.
  constexpr int kAcross = kPageTokens / 16, kSteps = kD / 16 * kAcross;
  std::uint32_t a[2][kM][4], b[2][4];
  const auto load_keys = [&](int step) {
    load_matrices(b[step % 2],
                  keys + step % kAcross * 16 * kD * 2 + advance(offset, step / kAcross));
  };
#pragma unroll
  for (int m = 0; m < kM; ++m) queries(m, 0, a[0][m]);
  load_keys(0);
#pragma unroll
  for (int k = 0; k < kD / 16; ++k) {
#pragma unroll
    for (int n = 0; n < kAcross; ++n) {
      const int step = k * kAcross + n;
      if (step + 1 < kSteps) load_keys(step + 1);
      if (n + kM >= kAcross && k + 1 < kD / 16) {
        const int m = n + kM - kAcross;
        queries(m, k + 1, a[(k + 1) % 2][m]);
      }
      const std::uint32_t(&keys_of)[4] = b[step % 2];
      const std::uint32_t low[2] = {keys_of[0], keys_of[1]}, high[2] = {keys_of[2], keys_of[3]};
#pragma unroll
      for (int m = 0; m < kM; ++m) {
        mma(scores[m][n * 2], a[k % 2][m], low, T{});
        mma(scores[m][n * 2 + 1], a[k % 2][m], high, T{});
      }
    }
  }
}

/// A step of the online softmax: updates the rows' maxima, converts scores to the weights 2^(factor
/// (score - maximum)), and rescales the state. factor: softmax scale * log2(e).
template <int kD, int kM>
__device__ void update_softmax(float factor, float (&scores)[kM][kPageTokens / 8][4],
                               SoftmaxState<kD, kM>& state) {
#pragma unroll
  for (int m = 0; m < kM; ++m) {
    float keep[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float highest = state.max_score[m][half];
#pragma unroll
      for (int n = 0; n < kPageTokens / 8; ++n)
        highest = fmaxf(highest, fmaxf(scores[m][n][half * 2], scores[m][n][half * 2 + 1]));
      highest = fmaxf(highest, __shfl_xor_sync(0xFFFFFFFF, highest, 1));
      highest = fmaxf(highest, __shfl_xor_sync(0xFFFFFFFF, highest, 2));
      const float level = highest == kMasked ? 0 : highest * factor;
      keep[half] = power_of_2(fmaf(state.max_score[m][half], factor, -level));
      state.max_score[m][half] = highest;
      float sum = state.sum[m][half] * keep[half];
#pragma unroll
      for (int n = 0; n < kPageTokens / 8; ++n) {
#pragma unroll
        for (int i = half * 2; i < half * 2 + 2; ++i) {
          scores[m][n][i] = power_of_2(fmaf(scores[m][n][i], factor, -level));
          sum += scores[m][n][i];
        }
      }
      state.sum[m][half] = sum;
    }
    // Most tiles do not change a maximum.
    if (__any_sync(0xFFFFFFFF, keep[0] != 1 || keep[1] != 1) != 0) {
#pragma unroll
      for (int d = 0; d < kD / 8; ++d) {
#pragma unroll
        for (int i = 0; i < 4; ++i) state.out[m][d][i] *= keep[i / 2];
      }
    }
  }
}

/// out += weights values.  values: [64, kD].  The registers of the scores have the layout of an
/// operand.
template <typename T, int kD, int kM>
__device__ void accumulate_values(const float (&weights)[kM][kPageTokens / 8][4],
                                  const std::byte* values, SoftmaxState<kD, kM>& state) {
  const int offset = fragment_offset_down<kD>();
  constexpr int kAcross = kD / 16, kSteps = kPageTokens / 16 * kAcross;
  std::uint32_t a[kM][4], b[2][4];
  const auto load_values = [&](int step) {
    load_transposed(b[step % 2],
                    values + step / kAcross * 16 * kD * 2 + advance(offset, step % kAcross));
  };
  load_values(0);
#pragma unroll
  for (int k = 0; k < kPageTokens / 16; ++k) {
#pragma unroll
    for (int m = 0; m < kM; ++m) {
      const float(&left)[4] = weights[m][k * 2], (&right)[4] = weights[m][k * 2 + 1];
      a[m][0] = pack(left[0], left[1], T{});
      a[m][1] = pack(left[2], left[3], T{});
      a[m][2] = pack(right[0], right[1], T{});
      a[m][3] = pack(right[2], right[3], T{});
    }
#pragma unroll
    for (int d = 0; d < kAcross; ++d) {
      const int step = k * kAcross + d;
      if (step + 1 < kSteps) load_values(step + 1);
      const std::uint32_t(&values_of)[4] = b[step % 2];
      const std::uint32_t low[2] = {values_of[0], values_of[1]};
      const std::uint32_t high[2] = {values_of[2], values_of[3]};
#pragma unroll
      for (int m = 0; m < kM; ++m) {
        mma(state.out[m][d * 2], a[m], low, T{});
        mma(state.out[m][d * 2 + 1], a[m], high, T{});
      }
    }
  }
}

/// Masks the scores of pairs for which sees(position of the row, index of the key in the tile) is
/// false.  positions: [rows], at least one row; scores of further rows are arbitrary.
template <int kM, typename Sees>
__device__ void mask_scores(const std::int32_t* positions, int rows, const Sees& sees,
                            float (&scores)[kM][kPageTokens / 8][4]) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
#pragma unroll
  for (int m = 0; m < kM; ++m) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const std::int32_t row = positions[min(m * 16 + half * 8 + lane / 4, rows - 1)];
#pragma unroll
      for (int n = 0; n < kPageTokens / 8; ++n) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          if (!sees(row, n * 8 + lane % 4 * 2 + i)) scores[m][n][half * 2 + i] = kMasked;
        }
      }
    }
  }
}

}  // namespace turnbench::cuda
