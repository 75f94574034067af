#pragma once

#include <cstdint>
#include <span>

#include "inference/cuda/context.h"
#include "inference/cuda/linear.h"
#include "inference/model/matrix_view.h"

namespace turnbench::cuda {

// Operations of Backend, on float32 in device memory.

/// out[r] = x[r] / sqrt(mean(x[r]^2) + eps) * weight.  x, out: [rows, width]; weight: [width]; out
/// may be x.
void rms_norm(Context& context, MatrixView<const float> x, const float* weight, float eps,
              MatrixView<float> out);

/// rms_norm of every head of every row, in place: of the first `heads` heads with `weight`, of the
/// others with `other_weight`.  x: [rows, all heads * head_dim]; weights: [head_dim].
void rms_norm_heads(Context& context, MatrixView<float> x, int head_dim, int heads,
                    const float* weight, const float* other_weight, float eps);

/// Applies RoPE in place: rotates the pairs (d, d + head_dim / 2) of every head of row r by the
/// angles whose cosines and sines are row r of cos and sin.  x: [rows, heads * head_dim]; cos, sin:
/// [rows, head_dim / 2].
void apply_rope(Context& context, MatrixView<float> x, MatrixView<const float> cos,
                MatrixView<const float> sin);

/// SwiGLU: out = gate * sigmoid(gate) * up.  gate_up: [rows, 2 * width], gate first; out: [rows,
/// width].
void silu_multiply(Context& context, MatrixView<const float> gate_up, MatrixView<float> out);

/// x += y.  x, y: [n].
void add(Context& context, float* x, const float* y, std::int64_t n);

/// to[r] = from[r].  from, to: [rows, width]; they must not overlap.
void copy_rows(Context& context, MatrixView<const float> from, MatrixView<float> to);

/// out[i] = row tokens[i] of `table`.  out: [tokens, table.in].
void embed(Context& context, const Weights& table, std::span<const int> tokens, float* out);

}  // namespace turnbench::cuda
